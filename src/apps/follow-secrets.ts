import type { Changes } from "../nodes/changes.ts";
import { scopeOf } from "../store/accounts/sealed-secrets.ts";
import type { Catalog } from "./catalog.ts";
import { WHOLE_PROJECT } from "./secrets.ts";

/** Has secrets that another node has changed reach the apps that are served here, within a second. */
export function followSecrets(
  changes: Pick<Changes, "on" | "onReset">,
  catalog: Pick<Catalog, "refreshSecrets" | "refreshAllSecrets">,
): void {
  changes.on("secrets", async (subjects) => {
    for (const { projectId, appNumber } of subjects.map(scopeOf))
      await catalog.refreshSecrets(projectId, appNumber === WHOLE_PROJECT ? null : appNumber);
  });
  changes.onReset(() => catalog.refreshAllSecrets());
}
