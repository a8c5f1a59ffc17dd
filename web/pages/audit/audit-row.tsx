import { Link } from "@tanstack/react-router";
import type { AuditEntry, AuditSearch } from "../../api/audit.ts";
import { Cell, Row } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { differencesOf } from "./differences.ts";

export const AUDIT_COLUMNS = [
  { title: "When" },
  { title: "Who" },
  { title: "What" },
  { title: "To what" },
  { title: "From", isMinor: true },
  { title: "Change", align: "right" },
] as const;

type Props = {
  readonly projectId: string;
  readonly entry: AuditEntry;
  /** Of accounts and people by their ids. */
  readonly names: ReadonlyMap<string, string>;
  /** What the list is narrowed to. */
  readonly search: AuditSearch;
  readonly isOpen: boolean;
};

/** One change; what it was before and after is shown on demand. */
export function AuditRow({ projectId, entry, names, search, isOpen }: Props) {
  const { id, createdAt, actor, action, target, ip } = entry;
  const who = actor === null ? "the installation" : (names.get(actor) ?? actor);
  const what = names.get(target) ?? target;
  return (
    <>
      <Row>
        <Cell>
          <Time at={createdAt} />
        </Cell>
        <Cell className="max-w-56 truncate">
          <span title={actor === null ? undefined : `${who} (${actor})`}>{who}</span>
        </Cell>
        <Cell className="font-mono text-[0.9rem]">{action}</Cell>
        <Cell className="max-w-72 truncate">
          <span title={what === target ? target : `${what} (${target})`}>{what}</span>
        </Cell>
        <Cell isMinor className="tabular text-ink-soft">
          {ip}
        </Cell>
        <Cell align="right">
          <Link
            to="/projects/$projectId/audit"
            params={{ projectId }}
            search={isOpen ? search : { ...search, entry: Number(id) }}
            replace
            resetScroll={false}
            aria-expanded={isOpen}
            aria-label={`${isOpen ? "Hide" : "Show"} ${action} of ${what}`}
            className="text-accent underline-offset-2 hover:underline"
          >
            {isOpen ? "Hide" : "Show"}
          </Link>
        </Cell>
      </Row>
      {isOpen && (
        <tr className="bg-sunken">
          <td colSpan={AUDIT_COLUMNS.length} className="px-4 py-3">
            <Change entry={entry} />
          </td>
        </tr>
      )}
    </>
  );
}

function Change({ entry: { before, after, target, requestId } }: { readonly entry: AuditEntry }) {
  const differences = differencesOf(before, after);
  return (
    <div className="max-w-[calc(100vw-5.5rem)] font-mono text-[0.88rem]">
      {differences.length === 0 && <p className="font-sans text-ink-soft">No details were recorded.</p>}
      {differences.map(({ path, before: was, after: is }) => (
        <div key={path} className="whitespace-pre-wrap">
          {was !== undefined && <Side mark="−" path={path} text={was} className="text-bad" />}
          {is !== undefined && <Side mark="+" path={path} text={is} className="text-good" />}
        </div>
      ))}
      <p className="mt-2 break-all text-ink-faint">
        {target} · request {requestId}
      </p>
    </div>
  );
}

function Side({
  mark,
  path,
  text,
  className,
}: {
  readonly mark: string;
  readonly path: string;
  readonly text: string;
  readonly className: string;
}) {
  return (
    <p className={className}>
      {mark} {path && `${path}: `}
      <span className="break-all whitespace-pre-wrap">{text}</span>
    </p>
  );
}
