import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useIsOwner } from "../../api/members.ts";
import { createSigningSecret, retireSigningSecret, signingSecretsQuery } from "../../api/webhooks.ts";
import type { SigningSecret } from "../../api/webhooks.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/problem.tsx";
import { ShownOnce } from "../../parts/shown-once.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { Time } from "../../parts/time.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

/** What receivers know genuine deliveries by: list, make, retire. */
export function SigningSecrets({ projectId }: { readonly projectId: string }) {
  const queries = useQueryClient();
  const isOwner = useIsOwner(projectId);
  const { data: secrets, error, refetch } = useQuery(signingSecretsQuery(projectId));
  const [made, setMade] = useState<string | null>(null);
  const [retiring, setRetiring] = useState<SigningSecret | null>(null);
  const refresh = (): Promise<void> =>
    queries.invalidateQueries({ queryKey: signingSecretsQuery(projectId).queryKey });
  const create = useMutation({
    mutationFn: () => createSigningSecret(projectId),
    onSuccess: async ({ secret }) => {
      await refresh();
      setMade(secret);
    },
    onError: tellError,
  });
  const retire = useMutation({
    mutationFn: ({ id }: SigningSecret) => retireSigningSecret(projectId, id),
    onSuccess: async () => {
      await refresh();
      setRetiring(null);
      tell("The secret is retired.");
    },
    onError: tellError,
  });
  return (
    <Card
      title="Signing secrets"
      actions={
        isOwner && (
          <Button size="small" isBusy={create.isPending} onClick={() => create.mutate()}>
            Create secret
          </Button>
        )
      }
    >
      <p className="mb-3 text-ink-soft">
        Each delivery carries a signature of every secret here. To rotate: create a second one, give it to
        your receivers, then retire the first. Nothing is lost in between.
      </p>
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : secrets?.length === 0 ? (
        <p className="text-ink-faint">None yet. Create one before you verify deliveries.</p>
      ) : (
        <ul className="divide-y divide-line border-t border-line">
          {secrets?.map((secret) => (
            <li key={secret.id} className="flex h-11 items-center gap-3">
              <span className="min-w-0 flex-1 truncate font-mono text-[0.88rem]" title={secret.id}>
                {secret.id}
              </span>
              <Time at={secret.createdAt} />
              {isOwner && (
                <Button
                  size="small"
                  look="quiet"
                  aria-label={`Retire ${secret.id}`}
                  onClick={() => setRetiring(secret)}
                >
                  Retire
                </Button>
              )}
            </li>
          )) ?? (
            <li className="flex h-11 items-center">
              <Skeleton />
            </li>
          )}
        </ul>
      )}
      <ShownOnce title="The signing secret" label="Secret" text={made} onClose={() => setMade(null)}>
        It is shown only once. Give it to your receivers, and keep it as a secret.
      </ShownOnce>
      <Confirm
        title="Retire this secret?"
        isOpen={retiring !== null}
        onClose={() => setRetiring(null)}
        onConfirm={() => retiring && retire.mutate(retiring)}
        action="Retire secret"
        isBusy={retire.isPending}
      >
        Receivers that know only this one will refuse new deliveries. This cannot be undone.
      </Confirm>
    </Card>
  );
}
