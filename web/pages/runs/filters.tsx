import { useQuery } from "@tanstack/react-query";
import { appsQuery, nameOf } from "../../api/apps.ts";
import { RUN_STATES } from "../../../src/model/run.ts";
import { RANGES } from "../../api/figures.ts";
import type { RangeName } from "../../api/figures.ts";
import { RUN_MODES, isRunId, isSpan, readRunSearch } from "../../api/run-search.ts";
import type { RunSearch } from "../../api/run-search.ts";
import { Button } from "../../parts/button.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { TypedField } from "../../parts/typed-field.tsx";

const CUSTOM = "custom";

/** Makes a filter of the one there is by then: others may have been changed while somebody typed. */
export type SearchChange = (last: RunSearch) => RunSearch;

type Props = { readonly search: RunSearch; readonly onChange: (change: SearchChange) => void };

/** What narrows a list of runs. */
export function RunFilters({ search, onChange, projectId }: Props & { readonly projectId?: string }) {
  const set = (name: keyof RunSearch, value: string): void =>
    onChange((last) => readRunSearch({ ...last, [name]: value }));
  const { status = "", mode = "", from = "", to } = search;
  const isCustom = to !== undefined || (from !== "" && !isSpan(from));
  const setTime = (value: string): void => {
    const start = new Date(Date.now() - RANGES["1h"].ms).toISOString();
    onChange((last) => readRunSearch({ ...last, to: undefined, from: value === CUSTOM ? start : value }));
  };
  return (
    <div className="flex flex-wrap items-end gap-3">
      <div className="w-32">
        <Choice label="State" value={status} onChange={({ target }) => set("status", target.value)}>
          <option value="">Any</option>
          {RUN_STATES.map((state) => (
            <option key={state}>{state}</option>
          ))}
        </Choice>
      </div>
      <div className="w-28">
        <Choice label="Mode" value={mode} onChange={({ target }) => set("mode", target.value)}>
          <option value="">Any</option>
          {RUN_MODES.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
      </div>
      {projectId !== undefined && (
        <AppChoice projectId={projectId} app={search.app ?? ""} onChange={(app) => set("app", app)} />
      )}
      <TypedField
        label="Function"
        placeholder="Any"
        width="w-36"
        text={search.function ?? ""}
        onChange={(name) => set("function", name)}
      />
      <div className="w-32">
        <Choice
          label="Time"
          value={isCustom ? CUSTOM : from}
          onChange={({ target }) => setTime(target.value)}
        >
          <option value="">Any</option>
          {(Object.keys(RANGES) as RangeName[]).map((name) => (
            <option key={name} value={name}>
              Last {RANGES[name].title}
            </option>
          ))}
          <option value={CUSTOM}>From … to</option>
        </Choice>
      </div>
      <TypedField
        label="Run id"
        placeholder="The whole id"
        width="w-80 max-w-full"
        text={search.id ?? ""}
        isRight={isRunId}
        problem="Not a whole id: it has 32 digits in five groups."
        // A run has one id: whatever else narrows the list could only hide it.
        onChange={(id) => (id === "" ? set("id", "") : onChange(() => readRunSearch({ id })))}
      />
      {isCustom && (
        <>
          <TimeField label="From" at={from} onChange={(at) => set("from", at)} />
          <TimeField label="To" at={to ?? ""} onChange={(at) => set("to", at)} />
        </>
      )}
      {Object.keys(search).length > 0 && (
        <Button look="quiet" onClick={() => onChange(() => ({}))}>
          Clear
        </Button>
      )}
    </div>
  );
}

function AppChoice({
  projectId,
  app,
  onChange,
}: {
  readonly projectId: string;
  readonly app: string;
  readonly onChange: (app: string) => void;
}) {
  const { data: apps = [] } = useQuery({ ...appsQuery(projectId), refetchInterval: false });
  const names = apps.map(({ id }) => nameOf(projectId, id));
  return (
    <div className="w-44">
      <Choice label="App" value={app} onChange={({ target }) => onChange(target.value)}>
        <option value="">Any</option>
        {app !== "" && !names.includes(app) && <option>{app}</option>}
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </Choice>
    </div>
  );
}

function TimeField({
  label,
  at,
  onChange,
}: {
  readonly label: string;
  readonly at: string;
  readonly onChange: (at: string) => void;
}) {
  return (
    <div className="w-52">
      <Field
        label={label}
        type="datetime-local"
        value={localTime(at)}
        onChange={({ target }) => onChange(target.value && new Date(target.value).toISOString())}
      />
    </div>
  );
}

/** A time as such a field has it: in the viewer's zone, without saying so. */
function localTime(at: string): string {
  if (at === "") return "";
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
