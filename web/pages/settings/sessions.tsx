import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { endSession, sessionsQuery } from "../../api/members.ts";
import type { SignIn } from "../../api/members.ts";
import { session } from "../../api/session.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

const COLUMNS = [
  { title: "Where" },
  { title: "Since" },
  { title: "Last renewed", isMinor: true },
  { title: "Expires if unused", isMinor: true },
  { title: "Actions", align: "right" },
] as const;

/** Where the person is signed in. */
export function Sessions() {
  const queries = useQueryClient();
  const { data: signIns, error, refetch } = useQuery(sessionsQuery);
  const { mutate } = useMutation({
    // This one's cookie has to go too.
    mutationFn: ({ id, isCurrent }: SignIn) => (isCurrent ? session.signOut() : endSession(id)),
    onSuccess: async (_, { isCurrent }) => {
      if (isCurrent) return;
      tell("That session has ended.");
      await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey });
    },
    onError: tellError,
  });
  return (
    <Card title="Where you are signed in" isFlush>
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : (
        <Table columns={COLUMNS} label="Sessions">
          {signIns?.map((signIn) => (
            <Row key={signIn.id}>
              <Cell>
                {signIn.kind === "browser" ? "A browser" : "A command line"}
                {signIn.isCurrent && <span className="ml-2 text-ink-faint">this one</span>}
              </Cell>
              <Cell>
                <Time at={signIn.createdAt} />
              </Cell>
              <Cell isMinor>
                <Time at={signIn.refreshedAt} />
              </Cell>
              <Cell isMinor>
                <Time at={signIn.expiresAt} />
              </Cell>
              <Cell align="right">
                <Button size="small" look="quiet" onClick={() => mutate(signIn)}>
                  Sign out
                </Button>
              </Cell>
            </Row>
          )) ?? <SkeletonRows rows={2} columns={COLUMNS.length} />}
        </Table>
      )}
    </Card>
  );
}
