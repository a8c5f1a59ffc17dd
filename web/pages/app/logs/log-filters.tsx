import { useEffect, useState } from "react";
import type { FormEvent } from "react";
import { LOG_STREAMS } from "../../../../src/model/log-line.ts";
import type { LogStream } from "../../../../src/model/log-line.ts";
import type { LogFilter } from "../../../api/logs.ts";
import { Choice, Field } from "../../../parts/field.tsx";

const RUN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Typing is over. */
const SETTLE_MS = 500;

/** What the lines are narrowed to; taken up when typing is over, or at Enter. */
export function LogFilters({
  filter,
  onChange,
}: {
  readonly filter: LogFilter;
  readonly onChange: (change: { search?: string; stream?: LogStream | undefined; runId?: string }) => void;
}) {
  const [search, setSearch] = useState(filter.search ?? "");
  const [runId, setRunId] = useState(filter.runId ?? "");
  const isRunId = runId.trim() === "" || RUN_ID.test(runId.trim());
  // The way back in the browser changes the address too.
  const [taken, setTaken] = useState(filter);
  if (taken.search !== filter.search || taken.runId !== filter.runId) {
    setTaken(filter);
    setSearch(filter.search ?? "");
    setRunId(filter.runId ?? "");
  }
  const isSame = search === (filter.search ?? "") && runId.trim() === (filter.runId ?? "");
  const apply = (): void => {
    if (!isSame && isRunId) onChange({ search, runId: runId.trim() });
  };
  useEffect(() => {
    const timer = setTimeout(apply, SETTLE_MS);
    return () => clearTimeout(timer);
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    apply();
  };
  return (
    <form
      onSubmit={submit}
      role="search"
      className="grid flex-1 grid-cols-[8rem_1fr] gap-3 sm:grid-cols-[2fr_8rem_1.5fr] max-sm:[&>:first-child]:col-span-2"
    >
      <Field
        label="Search"
        type="search"
        placeholder="Any part of a line"
        maxLength={200}
        value={search}
        onChange={({ target }) => setSearch(target.value)}
      />
      <Choice
        label="Stream"
        value={filter.stream ?? ""}
        onChange={({ target }) => onChange({ stream: LOG_STREAMS.find((stream) => stream === target.value) })}
      >
        <option value="">both</option>
        {LOG_STREAMS.map((stream) => (
          <option key={stream}>{stream}</option>
        ))}
      </Choice>
      <Field
        label="Run"
        type="search"
        placeholder="A run's id"
        error={isRunId ? undefined : "That is not a run id."}
        className="font-mono text-[0.9rem]"
        value={runId}
        onChange={({ target }) => setRunId(target.value)}
      />
    </form>
  );
}
