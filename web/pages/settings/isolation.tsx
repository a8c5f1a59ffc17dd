import { useQuery } from "@tanstack/react-query";
import { isolationQuery } from "../../api/isolation.ts";
import type { EscapeReport, IsolationRule, Level } from "../../api/isolation.ts";
import { meQuery } from "../../api/me.ts";
import { Badge } from "../../parts/badge.tsx";
import { Card } from "../../parts/card.tsx";
import { Fact } from "../../parts/fact.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Time } from "../../parts/time.tsx";

const MEANINGS: Readonly<Record<Level, string>> = {
  none: "apps run as the service's user, with nothing in between",
  process: "system calls are filtered; files are not",
  landlock: "apps reach their own files and processes only",
  userns: "apps see their own files and processes only",
  uid: "the same, with a user of its own for each project",
};

/** How the installation isolates apps, and what the last `doctor --escape` found. For the operator. */
export function Isolation() {
  const { data: me } = useQuery(meQuery);
  const isOperator = me?.isOperator === true;
  const { data, error, refetch } = useQuery({ ...isolationQuery, enabled: isOperator });
  if (!isOperator) return null;
  return (
    <Card title="Isolation of apps">
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : (
        data && (
          <>
            <dl className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
              <Fact title="Level">
                <Badge tone={data.level === "none" ? "warn" : "good"}>{data.level}</Badge>{" "}
                <span className="text-ink-soft">{MEANINGS[data.level]}</span>
              </Fact>
              <Fact title="Last escape test">
                <LastEscape report={data.lastEscape} />
              </Fact>
            </dl>
            {data.rules.length > 0 && <Rules rules={data.rules} />}
          </>
        )
      )}
    </Card>
  );
}

function LastEscape({ report }: { readonly report: EscapeReport | null }) {
  if (report === null)
    return (
      <span className="text-ink-soft">
        none yet: run <code>millrace doctor --escape</code>
      </span>
    );
  const { at, claimed, real, tried, stopped, failures } = report;
  const isSound = claimed === real && failures.length === 0;
  return (
    <>
      <Badge tone={isSound ? "good" : "bad"}>{isSound ? "the claim holds" : "the claim does not hold"}</Badge>{" "}
      <span className="text-ink-soft">
        <Time at={at} />: {stopped} of {tried} attacks stopped; claimed {claimed}, real {real}
      </span>
      {failures.length > 0 && (
        <ul aria-label="Attacks that were not stopped" className="mt-1 list-disc pl-5 text-bad">
          {failures.map((name) => (
            <li key={name}>{name}</li>
          ))}
        </ul>
      )}
    </>
  );
}

function Rules({ rules }: { readonly rules: readonly IsolationRule[] }) {
  return (
    <ul aria-label="What apps are held to" className="mt-4 border-t border-line pt-3">
      {rules.map(({ name, isEnforced, detail }) => (
        <li key={name} className="flex flex-wrap items-baseline gap-x-2 py-1">
          <span className="min-w-28 font-medium">{name.replaceAll("_", " ")}</span>
          <Badge tone={isEnforced ? "good" : "warn"}>{isEnforced ? "enforced" : "not enforced"}</Badge>
          <span className="min-w-0 text-ink-soft">{detail}</span>
        </li>
      ))}
    </ul>
  );
}
