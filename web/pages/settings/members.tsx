import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { meQuery } from "../../api/me.ts";
import { installation } from "../../api/installation.ts";
import { invitationsQuery } from "../../api/invitations.ts";
import {
  ROLE_CHOICES,
  changeMember,
  makePasswordLink,
  membersQuery,
  removeMember,
  useIsOwner,
} from "../../api/members.ts";
import type { Member, MemberRole } from "../../api/members.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/problem.tsx";
import { ShownOnce } from "../../parts/shown-once.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

const COLUMNS = [
  { title: "E-mail" },
  { title: "Role" },
  { title: "Since", isMinor: true },
  { title: "Actions", align: "right" },
] as const;

/** Who belongs to the project: change, take out. */
export function Members({ projectId }: { readonly projectId: string }) {
  const queries = useQueryClient();
  const isOwner = useIsOwner(projectId) ?? false;
  const { data: members, error, refetch } = useQuery(membersQuery(projectId));
  const { data: me } = useQuery(meQuery);
  const [passwordUrl, setPasswordUrl] = useState<string | null>(null);
  const [leaving, setLeaving] = useState<Member | null>(null);
  const [stepping, setStepping] = useState<Member | null>(null);
  const refresh = async (): Promise<void> => {
    await queries.invalidateQueries({ queryKey: membersQuery(projectId).queryKey });
    await queries.invalidateQueries({ queryKey: invitationsQuery(projectId).queryKey });
    await queries.invalidateQueries({ queryKey: meQuery.queryKey });
  };
  const change = useMutation({
    mutationFn: ({ personId, role }: Pick<Member, "personId" | "email" | "role">) =>
      changeMember(projectId, personId, role),
    onSuccess: async (_, { email, role }) => {
      tell(`${email} is ${role} now.`);
      await refresh();
    },
    onError: tellError,
    onSettled: () => setStepping(null),
  });
  const remove = useMutation({
    mutationFn: ({ personId }: Member) => removeMember(projectId, personId),
    onSuccess: async (_, { email }) => {
      setLeaving(null);
      tell(`${email} is no longer in the project.`);
      await refresh();
    },
    onError: tellError,
  });
  const link = useMutation({
    mutationFn: ({ personId }: Member) => makePasswordLink(personId),
    onSuccess: ({ url }) => setPasswordUrl(url),
    onError: tellError,
  });
  return (
    <Card title="Members" isFlush>
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : (
        <Table columns={COLUMNS} label="Members">
          {members?.map((member) => (
            <Row key={member.personId}>
              <Cell className="max-w-80">
                <div className="flex items-baseline gap-x-2 max-sm:flex-wrap max-sm:py-1.5">
                  <span className="truncate font-medium" title={member.personId}>
                    {member.email}
                  </span>
                  {installation.sendsMail && !member.isProven && (
                    <span className="text-warn">not verified</span>
                  )}
                  {member.personId === me?.id && <span className="text-ink-faint">you</span>}
                </div>
              </Cell>
              <Cell>
                {isOwner ? (
                  <RoleChoice
                    member={member}
                    onChange={(role) =>
                      member.personId === me?.id ? setStepping(member) : change.mutate({ ...member, role })
                    }
                  />
                ) : (
                  <Badge>{member.role}</Badge>
                )}
              </Cell>
              <Cell isMinor>
                <Time at={member.createdAt} />
              </Cell>
              <Cell align="right">
                {me?.isOperator && member.personId !== me.id && (
                  <Button
                    size="small"
                    look="quiet"
                    aria-label={`Password link for ${member.email}`}
                    onClick={() => link.mutate(member)}
                  >
                    Password link
                  </Button>
                )}
                {isOwner && (
                  <Button
                    size="small"
                    look="quiet"
                    aria-label={`Remove ${member.email}`}
                    onClick={() => setLeaving(member)}
                  >
                    Remove
                  </Button>
                )}
              </Cell>
            </Row>
          )) ?? <SkeletonRows rows={2} columns={COLUMNS.length} />}
        </Table>
      )}
      <ShownOnce
        title="A link to pass on"
        label="Password link"
        text={passwordUrl}
        onClose={() => setPasswordUrl(null)}
      >
        Give it only to that person: whoever opens it can choose the password. It works once and expires after
        seven days. Until somebody uses it, the old password stays.
      </ShownOnce>
      <Confirm
        title="Give up being an owner?"
        isOpen={stepping !== null}
        onClose={() => setStepping(null)}
        onConfirm={() => stepping && change.mutate({ ...stepping, role: "member" })}
        action="Become a member"
        isBusy={change.isPending}
      >
        Only another owner can make you one again. Invitations you made stop working.
      </Confirm>
      <Confirm
        title="Remove this member?"
        isOpen={leaving !== null}
        onClose={() => setLeaving(null)}
        onConfirm={() => leaving && remove.mutate(leaving)}
        action="Remove member"
        isBusy={remove.isPending}
      >
        <p className="mb-2 font-medium break-all text-ink">{leaving?.email}</p>
        They lose access to this project at once, and invitations they made stop working. API keys they made
        keep working.
      </Confirm>
    </Card>
  );
}

function RoleChoice({
  member,
  onChange,
}: {
  readonly member: Member;
  readonly onChange: (role: MemberRole) => void;
}) {
  return (
    <select
      aria-label={`Role of ${member.email}`}
      value={member.role}
      onChange={({ target }) => onChange(target.value as MemberRole)}
      className="h-7 rounded-md border border-line-strong bg-surface px-1.5"
    >
      {ROLE_CHOICES.map((role) => (
        <option key={role}>{role}</option>
      ))}
    </select>
  );
}
