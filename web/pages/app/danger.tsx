import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { appsQuery, deleteApp, idOf } from "../../api/apps.ts";
import { useIsOwner } from "../../api/members.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { Refusal } from "../../parts/refusal.tsx";
import { tell } from "../../parts/toasts.tsx";

/** The end of an app, once its name is typed. */
export function AppDanger() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const mayDelete = useIsOwner(projectId) ?? true;
  const [typed, setTyped] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => deleteApp(projectId, appName),
    onSuccess: async () => {
      tell(`${appName} is deleted.`);
      const { queryKey } = appsQuery(projectId);
      // A list that was asked for before would bring it back.
      await queries.cancelQueries({ queryKey });
      queries.setQueryData(queryKey, (apps) => apps?.filter(({ id }) => id !== idOf(projectId, appName)));
      // Away before it is forgotten: here it would be asked for once more.
      await navigate({ to: "/projects/$projectId/apps", params: { projectId } });
      queries.removeQueries({ predicate: (query) => isOfApp(query.queryKey, projectId, appName) });
      await queries.invalidateQueries({ queryKey });
    },
  });
  const submit = (): void => {
    if (typed === appName) mutate();
  };
  return (
    <Card title="Delete this app" className="!border-bad">
      <Form onSubmit={submit} className="max-w-xl">
        <p className="text-ink-soft">
          Calls get 404 at once, and runs in progress finish. The app’s versions, builds, logs and secrets are
          deleted, with the inputs and results of its runs. The run records can no longer be read, and are
          removed when they expire. Files in the persistent storage stay, because they belong to the project.
          The name can be used again. This cannot be undone.
        </p>
        <Field
          label={
            <>
              Type <code className="font-mono">{appName}</code> to delete it
            </>
          }
          autoComplete="off"
          spellCheck={false}
          disabled={!mayDelete}
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
          hint={mayDelete ? undefined : "Only owners of the project can delete apps."}
        />
        <Refusal error={error} />
        <div>
          <Button type="submit" look="danger" isBusy={isPending} disabled={typed !== appName || !mayDelete}>
            Delete {appName}
          </Button>
        </div>
      </Form>
    </Card>
  );
}

/** Whatever is known of an app is kept under its project and its name. */
function isOfApp(key: readonly unknown[], projectId: string, appName: string): boolean {
  return key[1] === projectId && key[2] === appName;
}
