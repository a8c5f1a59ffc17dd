import { useMutation } from "@tanstack/react-query";
import { readAuditSearch, readWholeAudit } from "../../api/audit.ts";
import type { AuditEntry, AuditSearch } from "../../api/audit.ts";
import { RANGES } from "../../api/figures.ts";
import type { RangeName } from "../../api/figures.ts";
import { Button } from "../../parts/button.tsx";
import { csvOf } from "../../parts/csv.ts";
import { Choice } from "../../parts/field.tsx";
import { saveBlob } from "../../parts/save-text.ts";
import { tellError } from "../../parts/toasts.tsx";
import { TypedField } from "../../parts/typed-field.tsx";

/** Who, what and when narrows the list of changes, and the way to take it along. */
export function AuditFilters({
  projectId,
  search,
  names,
  onChange,
}: {
  readonly projectId: string;
  readonly search: AuditSearch;
  /** Of accounts and people by their ids. */
  readonly names: ReadonlyMap<string, string>;
  readonly onChange: (search: AuditSearch) => void;
}) {
  const set = (name: keyof AuditSearch, value: string): void =>
    onChange(readAuditSearch({ ...search, [name]: value }));
  const { mutate: save, isPending } = useMutation({
    mutationFn: async () => fileOf(await readWholeAudit(projectId, search), names),
    onSuccess: (blob) => saveBlob(`audit-${projectId}.csv`, blob),
    onError: tellError,
  });
  const { actor = "", action = "", since = "" } = search;
  return (
    <div className="flex flex-wrap items-end gap-3">
      <div className="w-56 max-w-full">
        <Choice label="Who" value={actor} onChange={({ target }) => set("actor", target.value)}>
          <option value="">Anyone</option>
          {actor !== "" && !names.has(actor) && <option>{actor}</option>}
          {[...names].map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </Choice>
      </div>
      <TypedField
        label="What"
        placeholder="Such as secrets"
        width="w-48"
        text={action}
        onChange={(text) => set("action", text)}
      />
      <div className="w-32">
        <Choice label="Time" value={since} onChange={({ target }) => set("since", target.value)}>
          <option value="">Any</option>
          {(Object.keys(RANGES) as RangeName[]).map((name) => (
            <option key={name} value={name}>
              Last {RANGES[name].title}
            </option>
          ))}
        </Choice>
      </div>
      <Button isBusy={isPending} onClick={() => save()}>
        Download as CSV
      </Button>
    </div>
  );
}

function fileOf(entries: readonly AuditEntry[], names: ReadonlyMap<string, string>): Blob {
  const rows = entries.map(({ createdAt, actor, action, target, ip, requestId, before, after }) => [
    createdAt,
    actor ?? "",
    (actor !== null && names.get(actor)) || "",
    action,
    target,
    ip,
    requestId,
    before === undefined ? "" : JSON.stringify(before),
    after === undefined ? "" : JSON.stringify(after),
  ]);
  const head = ["time", "actor", "name", "action", "target", "ip", "request", "before", "after"];
  return new Blob([csvOf([head, ...rows])], { type: "text/csv;charset=utf-8" });
}
