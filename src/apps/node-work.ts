import type { NodeWork } from "../nodes/own-node.ts";
import type { Answering } from "../nodes/talk.ts";
import type { Catalog } from "./catalog.ts";
import type { Deployer } from "./deploys/deployer.ts";
import type { LogBook } from "./logs/log-book.ts";

type WorkParts = {
  readonly catalog: Catalog;
  readonly deployer: Pick<Deployer, "isBuilding" | "look">;
  readonly logBook: Pick<LogBook, "endTails">;
};

/** What a node does with apps that come and go. */
export function appWork({
  catalog,
  deployer,
  logBook,
}: WorkParts): Omit<NodeWork & Answering, "judge" | "owners" | "heartbeat" | "holdsRun" | "onDropped"> {
  return {
    open: (appNumber) => catalog.open(appNumber),
    letGo: async (appNumber) => {
      await catalog.letGo(appNumber);
      logBook.endTails(appNumber);
    },
    isChanging: (appNumber) => catalog.isChanging(appNumber) || deployer.isBuilding(appNumber),
    readyCount: (appNumber) => catalog.readyCount(appNumber),
    onTaken: () => deployer.look(),
    runs: () => catalog.load().runs,
    warm: (appNumber, replicas) => catalog.warm(appNumber, replicas),
    glances: (projectId) => catalog.glances(projectId),
  };
}
