import type { Settings } from "../../config/setting-keys.ts";
import { describeFull } from "../../host/limits/host-limits.ts";
import { describeRunOut } from "../../host/limits/limits.ts";
import type { Limits } from "../../host/limits/limits.ts";
import { describeExit } from "../engine.ts";
import type { Exit } from "../engine.ts";
import type { FolderName } from "./agent-messages.ts";

/** The most that each may hold, in bytes; null for as much as there is. */
export type FolderLimits = Readonly<Record<FolderName, number | null>>;

/** What an agent holds its app to: those, and the memory of each replica. */
export type AskedLimits = FolderLimits & { readonly memory: number | null };

/** How all of a seat has ended, as its agent tells it. */
export type ToldEnd = {
  readonly code: number;
  readonly isOutOfMemory: boolean;
  /** The folder that held too much, so that the agent has ended it. */
  readonly full: FolderName | null;
};

/** What the operator says of the disks of machines that strangers use too. */
export function folderLimits(
  settings: Pick<Settings, "maxScratchBytes" | "maxProjectStorageBytes">,
): FolderLimits {
  return { scratch: settings.maxScratchBytes, storage: settings.maxProjectStorageBytes };
}

/** What an app in that seat is held to; null where its place does that. */
export function askedLimits({ memoryBytes }: Limits, folders: FolderLimits | undefined): AskedLimits | null {
  return folders ? { memory: memoryBytes, ...folders } : null;
}

/** Why it ended, in the words that it has on this machine. A folder that nobody limits is no reason. */
export function endOfSeat(
  { code, isOutOfMemory, full }: ToldEnd,
  limits: Limits,
  folders?: FolderLimits,
): Exit {
  const most = full && folders?.[full];
  if (full && most) return { detail: describeFull(full, most), initFailure: null };
  if (isOutOfMemory) return { detail: describeRunOut(limits), initFailure: null, isOutOfMemory };
  return { detail: describeExit(code, null), initFailure: null };
}
