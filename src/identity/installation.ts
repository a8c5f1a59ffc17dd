import { randomUUID } from "node:crypto";
import type { Settings } from "../config/setting-keys.ts";
import { type Clock, steady } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import { Seal } from "../kit/seal.ts";
import type { Lane } from "../store/operation.ts";
import type { UpgradeWait } from "../store/postgres/upgrade.ts";
import { openStore, type Store } from "../store/store.ts";
import { lockDirectory } from "../store/upkeep/directory-lock.ts";
import { KeyRing } from "./key-ring.ts";
import { checkMasterKey, masterKeyPath, openMasterKey } from "./master-key.ts";
import { ensureOwner, type Owner } from "./owner.ts";
import { Tokens } from "./tokens.ts";

/** How long a token that was checked before is accepted while the database cannot be reached. */
const AUTH_GRACE_MS = 5 * 60_000;

type InstallationOptions = {
  /** Wraps the store, for tests. */
  readonly aroundStore?: ((store: Store) => Store) | undefined;
  readonly log?: Log;
};

/** Opens the database, the keys and the owner's token. */
export async function openInstallation(
  settings: Settings,
  clock: Clock,
  life: Lifecycle,
  { aroundStore = (store) => store, log }: InstallationOptions = {},
): Promise<{ store: Store; seal: Seal; keys: KeyRing; tokens: Tokens; owner: Owner }> {
  await life.start(
    "directory lock",
    () => lockDirectory(settings.dataDir),
    (lock) => lock.release(),
  );
  const onSilence = (lane: Lane, isSilent: boolean): void => {
    if (isSilent)
      log?.error({ lane }, "the database does not answer; requests that need it are refused until it does");
    else log?.info({ lane }, "the database answers again");
  };
  const onUpgrade = (migrations: readonly string[]): void =>
    log?.info({ migrations }, "migrating the database to this release's schema; this can take a while");
  const onUpgradeWait = (reason: UpgradeWait): void =>
    log?.info(
      reason === "another"
        ? "another service is migrating the database; waiting for it"
        : "the database cannot be migrated while its tables are locked; retrying",
    );
  const store = await life.start(
    "store",
    async () => aroundStore(await openStore({ ...settings, clock, onSilence, onUpgrade, onUpgradeWait })),
    (opened) => opened.close(),
  );
  const seal = new Seal(openMasterKey(settings));
  await checkMasterKey(store, seal, masterKeyPath(settings));
  const keys = await KeyRing.open(store, seal, clock);
  const instanceId = await store.meta.setIfAbsent({ key: "instance_id", value: randomUUID() });
  // With a clock that cannot be set, so that a wrong date neither voids tokens nor revives old ones.
  const tokens = new Tokens({ store, keys, instanceId, clock: steady(clock), graceMs: AUTH_GRACE_MS });
  const owner = await ensureOwner({ store, tokens, seal, clock, dataDir: settings.dataDir });
  return { store, seal, keys, tokens, owner };
}
