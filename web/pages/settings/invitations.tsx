import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { invitationsQuery, revokeInvitation } from "../../api/invitations.ts";
import type { Invitation, MadeInvitation } from "../../api/invitations.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { ShownOnce } from "../../parts/shown-once.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";
import { Invite } from "./invite.tsx";

const COLUMNS = [
  { title: "For" },
  { title: "Role" },
  { title: "Link", isMinor: true },
  { title: "Expires" },
  { title: "Actions", align: "right" },
] as const;

/** The project's open invitations: make and revoke them. For owners. */
export function Invitations({ projectId }: { readonly projectId: string }) {
  const queries = useQueryClient();
  const { data: invitations, error, refetch } = useQuery(invitationsQuery(projectId));
  const [isInviting, setInviting] = useState(false);
  const [inviteUrl, setInviteUrl] = useState<string | null>(null);
  const revoke = useMutation({
    mutationFn: ({ id }: Invitation) => revokeInvitation(projectId, id),
    onSuccess: (_, { email }) => tell(`The invitation for ${email} is revoked.`),
    onError: tellError,
    onSettled: () => queries.invalidateQueries({ queryKey: invitationsQuery(projectId).queryKey }),
  });
  const onInvited = (made: MadeInvitation): void => {
    if (made.inviteUrl === null) tell(`An invitation is on its way to ${made.email}.`);
    else setInviteUrl(made.inviteUrl);
  };
  return (
    <Card
      title="Invitations"
      isFlush
      actions={
        <Button size="small" onClick={() => setInviting(true)}>
          Invite somebody
        </Button>
      }
    >
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : invitations?.length === 0 ? (
        <Empty title="No open invitations">
          An invitation is a link to join the project. It works once and expires after seven days.
        </Empty>
      ) : (
        <Table columns={COLUMNS} label="Invitations">
          {invitations?.map((invitation) => (
            <Row key={invitation.id}>
              <Cell className="max-w-80 truncate font-medium">{invitation.email}</Cell>
              <Cell>
                <Badge tone={invitation.role === "owner" ? "warn" : "neutral"}>{invitation.role}</Badge>
              </Cell>
              <Cell isMinor>
                <Sent invitation={invitation} />
              </Cell>
              <Cell>
                <Time at={invitation.expiresAt} />
              </Cell>
              <Cell align="right">
                <Button
                  size="small"
                  look="quiet"
                  aria-label={`Revoke the invitation for ${invitation.email}`}
                  onClick={() => revoke.mutate(invitation)}
                >
                  Revoke
                </Button>
              </Cell>
            </Row>
          )) ?? <SkeletonRows rows={1} columns={COLUMNS.length} />}
        </Table>
      )}
      <Invite
        projectId={projectId}
        isOpen={isInviting}
        onClose={() => setInviting(false)}
        onInvited={onInvited}
      />
      <ShownOnce
        title="A link to pass on"
        label="Invitation link"
        text={inviteUrl}
        onClose={() => setInviteUrl(null)}
      >
        Pass this link on yourself. It is shown only once, works once and expires after seven days. Whoever
        opens it can join the project.
      </ShownOnce>
    </Card>
  );
}

/** How the link got to whom it is for. */
function Sent({ invitation: { isMailed, mailedAt } }: { readonly invitation: Invitation }) {
  if (!isMailed) return <span className="text-ink-soft">passed on by hand</span>;
  if (mailedAt === null) return <span className="text-warn">not mailed yet</span>;
  return (
    <span className="text-ink-soft">
      mailed <Time at={mailedAt} />
    </span>
  );
}
