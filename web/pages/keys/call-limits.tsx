import { useQuery } from "@tanstack/react-query";
import { appsQuery, nameOf } from "../../api/apps.ts";
import type { Key, NewLimits } from "../../api/keys.ts";
import { Field } from "../../parts/field.tsx";

/** What was typed into the form, as it stands there. */
export type TypedLimits = {
  readonly apps: readonly string[];
  readonly functions: string;
  readonly origins: string;
  readonly callsPerMinute: string;
};

export const NO_LIMITS: TypedLimits = { apps: [], functions: "", origins: "", callsPerMinute: "" };

/** What a key of the role `call` is limited to. */
export function LimitFields({
  projectId,
  value,
  onChange,
}: {
  readonly projectId: string;
  readonly value: TypedLimits;
  readonly onChange: (value: TypedLimits) => void;
}) {
  const { data: apps } = useQuery(appsQuery(projectId));
  const names = apps?.map(({ id }) => nameOf(projectId, id)) ?? [];
  const set = (change: Partial<TypedLimits>): void => onChange({ ...value, ...change });
  return (
    <>
      <fieldset>
        <legend className="mb-1 font-medium">Apps</legend>
        {apps?.length === 0 && <p className="text-ink-soft">Deploy an app first: a key names its apps.</p>}
        <div className="flex max-h-40 flex-col gap-1 overflow-auto">
          {names.map((name) => (
            <label key={name} className="flex items-center gap-2">
              <input
                type="checkbox"
                checked={value.apps.includes(name)}
                onChange={({ target }) =>
                  set({
                    apps: target.checked ? [...value.apps, name] : value.apps.filter((app) => app !== name),
                  })
                }
              />
              {name}
            </label>
          ))}
        </div>
      </fieldset>
      <Field
        label="Functions"
        hint="Separated by commas. Leave empty for all."
        value={value.functions}
        onChange={({ target }) => set({ functions: target.value })}
      />
      <Field
        label="Origins"
        hint="Whose pages may use it, such as https://shop.example.com. Leave empty for all."
        value={value.origins}
        onChange={({ target }) => set({ origins: target.value })}
      />
      <Field
        label="Calls per minute"
        hint="For each end user. Leave empty for no limit."
        type="number"
        min={1}
        max={100_000}
        value={value.callsPerMinute}
        onChange={({ target }) => set({ callsPerMinute: target.value })}
      />
    </>
  );
}

/** What the form says, as the API takes it. */
export function limitsOf({ apps, functions, origins, callsPerMinute }: TypedLimits): NewLimits {
  return {
    apps: [...apps],
    functions: listed(functions),
    origins: listed(origins),
    callsPerMinute: callsPerMinute === "" ? null : Number(callsPerMinute),
  };
}

/** What a key is limited to, in words; null for one that is not. */
export function limitText({ apps, functions, origins, callsPerMinute }: Key): string | null {
  if (!apps) return null;
  const parts = [
    `apps: ${apps.join(", ")}`,
    ...(functions ? [`functions: ${functions.join(", ")}`] : []),
    ...(origins ? [`origins: ${origins.join(", ")}`] : []),
    ...(callsPerMinute ? [`${callsPerMinute} calls per minute`] : []),
  ];
  return parts.join("; ");
}

function listed(text: string): string[] | null {
  const names = text.split(/[\s,]+/).filter((name) => name !== "");
  return names.length === 0 ? null : names;
}
