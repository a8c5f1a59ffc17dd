import type { NodeWork } from "../nodes/join-nodes.ts";
import type { Answering } from "../nodes/talk.ts";
import type { Catalog } from "./catalog.ts";
import type { Deployer } from "./deploys/deployer.ts";
import type { LogBook } from "./logs/log-book.ts";
import type { Changes } from "../nodes/changes.ts";
import { scopeOf } from "../store/accounts/sealed-secrets.ts";
import { WHOLE_PROJECT } from "./secrets.ts";
import { isFinalBuild } from "../model/build.ts";
import { AppError } from "../model/errors.ts";
import type { Owners } from "../nodes/owners.ts";
import type { Store } from "../store/store.ts";

type WorkParts = {
  readonly catalog: Catalog;
  readonly deployer: Pick<Deployer, "isBuilding" | "look">;
  readonly logBook: Pick<LogBook, "endTails">;
};

type OtherWork = "judge" | "owners" | "heartbeat" | "holdsRun" | "onDropped" | "gpus";

/** What a node does with apps that come and go. */
export function appWork(parts: WorkParts): Omit<NodeWork & Answering, OtherWork> {
  const { catalog, deployer, logBook } = parts;
  return {
    open: (appNumber) => catalog.open(appNumber),
    letGo: async (appNumber) => {
      await catalog.letGo(appNumber);
      logBook.endTails(appNumber);
    },
    isChanging: (appNumber) => catalog.isChanging(appNumber) || deployer.isBuilding(appNumber),
    gpuWish: (appNumber) => catalog.gpuWish(appNumber),
    readyCount: (appNumber) => catalog.readyCount(appNumber),
    onTaken: () => deployer.look(),
    runs: () => catalog.load().runs,
    warm: (appNumber, replicas) => catalog.warm(appNumber, replicas),
    liveStatuses: (projectId) => catalog.liveStatuses(projectId),
  };
}

/** Refreshes, within a second, secrets that another node has changed. */
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

/** The error for calls of an unserved app: it does not exist, no build has succeeded, or it cannot be loaded. */
export async function whyAbsent(
  store: Pick<Store, "apps" | "builds">,
  key: { readonly projectId: string; readonly name: string },
  owners: Pick<Owners, "whyUnserved"> | null,
): Promise<AppError> {
  const app = await store.apps.find(key);
  if (app && app.currentVersionId !== null) {
    const message =
      "The app cannot be served at the moment: it is being loaded, or is moving to another node.";
    const headers = { "retry-after": "1" };
    return owners?.whyUnserved(app.number) ?? new AppError("app_not_ready", { message, headers });
  }
  const latest = app && (await store.builds.latest(app.number));
  if (!latest || latest.status === "success") return new AppError("app_not_found");
  if (!isFinalBuild(latest.status)) {
    const message = `The app's first build is not finished: it is ${latest.status}.`;
    return new AppError("app_not_ready", { message, headers: { "retry-after": "5" } });
  }
  const why = latest.message === null ? "" : ` (${latest.message})`;
  const message = `The app has no version to serve: its last build ended as ${latest.status}${why}. Deploy it again.`;
  return new AppError("app_not_ready", { message, headers: { "x-should-retry": "false" } });
}
