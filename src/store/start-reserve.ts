import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import { DiskReserve } from "../kit/disk-reserve.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Store } from "./store.ts";

/** Watches the room on the database's disk; a Postgres has its own, which nobody here can see. */
export async function startReserve(
  { dataDir, diskReserveBytes }: Settings,
  store: Store,
  clock: Clock,
  life: Lifecycle,
): Promise<DiskReserve> {
  const isHere = store.kind === "sqlite";
  const reserve = await life.start(
    "disk reserve",
    () =>
      new DiskReserve(dataDir, isHere ? diskReserveBytes : 0, {
        // A Postgres would not be asked at all, and seem to have answered.
        ...(isHere && { insideBytes: () => store.space.freeBytes() }),
        setting: "MILLRACE_DISK_RESERVE",
        clock,
      }),
    (started) => started.stop(),
  );
  await reserve.start();
  return reserve;
}
