import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../../../api/answer.ts";
import { appQuery, changeScaling, configurationQuery } from "../../../api/apps.ts";
import type { ConfigEntry, ConfigValue, Scaling } from "../../../api/apps.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Card } from "../../../parts/card.tsx";
import { Field } from "../../../parts/field.tsx";
import { Form } from "../../../parts/form.tsx";
import { Refusal } from "../../../parts/refusal.tsx";
import { tell } from "../../../parts/toasts.tsx";
import { SCALING_FIELDS } from "./scaling-fields.ts";

type Draft = Partial<Record<keyof Scaling, string>>;

/** Changes an app's scaling at once, and says what a deploy would bring back. */
export function ScalingForm({
  projectId,
  appName,
  keys,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly keys: readonly ConfigEntry[];
}) {
  const queries = useQueryClient();
  // Only what was typed: the rest follows what others change.
  const [draft, setDraft] = useState<Draft>({});
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: (body: Partial<Scaling>) => changeScaling(projectId, appName, body),
    onSuccess: async () => {
      await Promise.all(
        [configurationQuery, appQuery].map((query) =>
          queries.invalidateQueries({ queryKey: query(projectId, appName).queryKey }),
        ),
      );
      setDraft({});
      tell("Scaling is updated.");
    },
  });
  const fields = SCALING_FIELDS.flatMap((field) => {
    const entry = keys.find(({ key }) => key === field.key);
    return entry ? [{ ...field, entry, text: draft[field.member] ?? numeral(entry.value) }] : [];
  });
  const changed = fields.filter(({ entry, text }) => text !== numeral(entry.value));
  const overridden = fields.filter(({ entry }) => entry.value !== entry.deployed);
  const problems = problemsIn(error);
  const submit = (): void => {
    mutate(Object.fromEntries(changed.map(({ member, text }) => [member, Number(text)])));
  };
  const restore = (): void => {
    setDraft({});
    mutate(Object.fromEntries(overridden.map(({ member, entry }) => [member, entry.deployed])));
  };
  const type = (member: keyof Scaling, text: string): void => {
    setDraft({ ...draft, [member]: text });
    reset();
  };
  return (
    <Card
      title="Scaling"
      actions={overridden.length > 0 && <Badge tone="warn">changed since the deploy</Badge>}
    >
      <Form onSubmit={submit}>
        <p className="text-ink-soft">
          Takes effect at once, without a new version. The next deploy resets it to the deployed
          configuration.
        </p>
        <div className="grid gap-x-6 gap-y-4 sm:grid-cols-2 xl:grid-cols-3">
          {fields.map(({ member, label, entry, text }) => (
            <Field
              key={member}
              label={label}
              hint={<Hint entry={entry} />}
              error={problems.get(member)}
              inputMode="decimal"
              autoComplete="off"
              className="tabular"
              value={text}
              onChange={({ target }) => type(member, target.value)}
            />
          ))}
        </div>
        {problems.size === 0 && <Refusal error={error} />}
        <div className="flex flex-wrap gap-2">
          <Button type="submit" look="primary" isBusy={isPending} disabled={changed.length === 0}>
            Save
          </Button>
          {overridden.length > 0 && (
            <Button isBusy={isPending} onClick={restore}>
              As configured
            </Button>
          )}
          {changed.length > 0 && (
            <Button look="quiet" onClick={() => setDraft({})}>
              Discard
            </Button>
          )}
        </div>
      </Form>
    </Card>
  );
}

function Hint({ entry }: { readonly entry: ConfigEntry }) {
  return (
    <>
      {entry.meaning.split(";")[0]?.replaceAll("`", "").replace(/\.$/, "")}. The configuration says{" "}
      <b className="tabular font-medium text-ink">{numeral(entry.deployed)}</b>.
    </>
  );
}

/** All of these are numbers. */
function numeral(value: ConfigValue): string {
  return typeof value === "number" ? String(value) : "";
}

/** What the service says of each member. */
function problemsIn(error: unknown): ReadonlyMap<string, string> {
  const details = error instanceof ApiError ? error.details : [];
  return new Map(
    details.flatMap((detail) => {
      const { field, problem } = detail as { readonly field?: unknown; readonly problem?: unknown };
      return typeof field === "string" && typeof problem === "string" ? [[field, problem]] : [];
    }),
  );
}
