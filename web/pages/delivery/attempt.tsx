import type { Attempt } from "../../api/webhooks.ts";
import { Badge } from "../../parts/badge.tsx";
import { span } from "../../parts/format.ts";
import { Time } from "../../parts/time.tsx";

/** What the short names of errors mean; a code of the system may follow the name. */
const MEANINGS: Readonly<Record<string, string>> = {
  bad_status: "The receiver did not answer with 2xx.",
  redirect: "The receiver answered with a redirect, which is not followed.",
  timed_out: "There was no complete answer within 15 seconds.",
  address_refused: "Webhooks are not allowed to reach this address.",
  name_not_found: "The host's name does not resolve to an address.",
  name_server_failed: "The host's name could not be resolved.",
  connection_refused: "Nothing listens at the address.",
  connection_reset: "The receiver closed the connection.",
  unreachable: "The address cannot be reached.",
  connection_failed: "The connection failed.",
  tls_failed: "The certificate is not valid, or there is no TLS.",
  bad_answer: "The answer was not valid HTTP.",
  secret_unreadable: "It was not sent: the installation cannot read its signing secret.",
  body_lost: "It was not sent: its body is no longer in the blob store, or damaged there.",
  bad_url: "It was not sent: the address is not valid.",
};

/** One try: when, what came of it, and what was sent on demand. */
export function AttemptEntry({ attempt }: { readonly attempt: Attempt }) {
  const { number, startedAt, durationMs, status, error, nextAt, requestHeaders } = attempt;
  const meaning = error === null ? undefined : MEANINGS[/^\w+/.exec(error)?.[0] ?? ""];
  return (
    <li className="border-t border-line px-4 py-3 first:border-t-0">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
        <h3 className="font-medium">Attempt {number}</h3>
        <Badge tone={error === null ? "good" : "bad"}>{status ?? "no answer"}</Badge>
        <span className="text-ink-soft">
          <Time at={startedAt} />
        </span>
        <span className="tabular text-ink-soft">took {span(durationMs)}</span>
        {nextAt !== null && (
          <span className="text-ink-soft">
            next try <Time at={nextAt} />
          </span>
        )}
      </div>
      {error !== null && (
        <p className="mt-1 break-words text-bad">
          {meaning} <span className="font-mono text-[0.88rem]">{error}</span>
        </p>
      )}
      <details className="mt-1.5">
        <summary className="w-fit text-ink-soft hover:text-ink">Headers that were sent</summary>
        <dl className="mt-2 grid gap-x-4 gap-y-1 overflow-x-auto rounded-md bg-sunken p-3 font-mono text-[0.88rem] sm:grid-cols-[auto_1fr]">
          {Object.entries(requestHeaders).map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-ink-faint">{name}</dt>
              <dd className="min-w-0 break-all max-sm:mb-1.5">{value}</dd>
            </div>
          ))}
        </dl>
      </details>
    </li>
  );
}
