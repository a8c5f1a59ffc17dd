import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { messageOf } from "../../api/answer.ts";
import { meQuery } from "../../api/me.ts";
import { createProject } from "../../api/members.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { FormEnd } from "../../parts/form-end.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { tell } from "../../parts/toasts.tsx";

const COLUMNS = [{ title: "Name" }, { title: "Id" }, { title: "You are", align: "right" }] as const;

/** The person's projects, and a new one. */
export function Projects({ projectId }: { readonly projectId: string }) {
  const { data: me } = useQuery(meQuery);
  const [isMaking, setMaking] = useState(false);
  const close = (): void => setMaking(false);
  return (
    <Card
      title="Your projects"
      isFlush
      actions={
        <Button size="small" onClick={() => setMaking(true)}>
          Create project
        </Button>
      }
    >
      <Table columns={COLUMNS} label="Your projects">
        {me?.projects.map(({ id, name, role }) => (
          <Row key={id}>
            <Cell className="max-w-80 truncate">
              <Link
                to="/projects/$projectId"
                params={{ projectId: id }}
                className="font-medium underline-offset-2 hover:underline"
              >
                {name}
              </Link>
              {id === projectId && <span className="ml-2 text-ink-faint">this one</span>}
            </Cell>
            <Cell>
              <span className="inline-flex items-center gap-2 font-mono text-[0.9rem]">
                {id} <Copy text={id} />
              </span>
            </Cell>
            <Cell align="right">
              <Badge>{role}</Badge>
            </Cell>
          </Row>
        )) ?? <SkeletonRows rows={1} columns={COLUMNS.length} />}
      </Table>
      <Dialog title="Create a project" isOpen={isMaking} onClose={close}>
        <ProjectForm onClose={close} />
      </Dialog>
    </Card>
  );
}

function ProjectForm({ onClose }: { readonly onClose: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => createProject(name.trim()),
    onSuccess: async (project) => {
      await queries.invalidateQueries({ queryKey: meQuery.queryKey });
      onClose();
      tell(`Created ${project.name}.`);
      await navigate({ to: "/projects/$projectId", params: { projectId: project.id } });
    },
  });
  return (
    <Form onSubmit={mutate}>
      <Field
        label="Name"
        hint="Each project has its own apps, keys, secrets and files."
        error={error ? messageOf(error) : undefined}
        required
        autoFocus
        maxLength={100}
        value={name}
        onChange={({ target }) => setName(target.value)}
      />
      <FormEnd action="Create project" isBusy={isPending} onCancel={onClose} />
    </Form>
  );
}
