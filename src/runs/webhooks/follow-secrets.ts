import type { Changes } from "../../nodes/changes.ts";
import type { SigningSecrets } from "./signing-secrets.ts";

/** Has signing secrets that another node made or removed count here, within a second. */
export function followSigningSecrets(
  changes: Pick<Changes, "on" | "onReset">,
  secrets: Pick<SigningSecrets, "forget">,
): void {
  changes.on("webhook-secrets", (projectIds) => {
    for (const projectId of projectIds) secrets.forget(projectId);
  });
  changes.onReset(() => secrets.forget(null));
}
