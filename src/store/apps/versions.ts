import { read, type Row, type Session, write } from "../operation.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import type { FunctionSignature, ScalingOverrides, Version, VersionBlobs } from "../../model/app.ts";
import type { AppConfig } from "../../model/app-config.ts";
import { AppError } from "../../model/errors.ts";
import { type AppHolder, requireApp } from "../nodes/app-owners.ts";
import { noteChange } from "../nodes/changes.ts";
import { all, doNothing, firstOf, isDone } from "../queries.ts";
import { isUnfinished } from "../runs/run-columns.ts";

type NewVersion = Pick<Version, "id" | "appNumber" | "config" | "bundle" | "createdAt"> &
  Partial<Pick<Version, "environment" | "bundleHash" | "functions" | keyof VersionBlobs>>;

type NewOverrides = Pick<Version, "id" | "overrides"> & {
  /** The app, and the node that has to own it. */
  readonly held?: { readonly appNumber: number; readonly holder: AppHolder | null };
};
type NewEnvironment = Pick<Version, "id" | "environment">;
type NewFunctions = { readonly id: string; readonly functions: readonly FunctionSignature[] };

const NO_ENVIRONMENT_BLOB = { environmentBlob: null, environmentBytes: null, environmentTag: null };

/** Versions: the immutable deploys of apps. */
export const versions = {
  /** Stores a version under the app's next number. Throws `app_not_found` if there is no such app. */
  insert: write(async ({ db }, version: NewVersion): Promise<Version> => {
    // The app's row is written first: its lock serialises the numbering of two deploys of one app.
    const app = db.updateTable("apps").set({ updatedAt: version.createdAt });
    const isThere = await isDone(app.where(all({ number: version.appNumber, deletedAt: null })));
    if (!isThere) throw new AppError("app_not_found");
    const ofApp = db.selectFrom("versions").where("appNumber", "=", version.appNumber);
    const last = await firstOf(ofApp.select("number").orderBy("number", "desc").limit(1));
    const { bundle: bundleDir, environment = null, bundleHash = null, functions = null, ...rest } = version;
    const row = {
      bundleBlob: null,
      bundleBytes: null,
      ...NO_ENVIRONMENT_BLOB,
      ...rest,
      id: uuidBytes(version.id),
      number: (last?.number ?? 0) + 1,
      config: JSON.stringify(version.config),
      bundleDir,
      environment,
      bundleHash,
      functions: functions && JSON.stringify(functions),
      overrides: null,
    };
    await db.insertInto("versions").values(row).execute();
    return fromRow(row);
  }),

  find: read(async ({ db }, id: string): Promise<Version | null> => {
    const row = await firstOf(db.selectFrom("versions").selectAll().where("id", "=", uuidBytes(id)));
    return row && fromRow(row);
  }),

  /** A version's configuration as it was deployed, without later changes. */
  findDeployed: read(async ({ db }, id: string): Promise<AppConfig | null> => {
    const row = await firstOf(db.selectFrom("versions").select("config").where("id", "=", uuidBytes(id)));
    return row && (JSON.parse(row.config) as AppConfig);
  }),

  /** An app's versions, newest first. */
  list: read(async ({ db }, appNumber: number): Promise<Version[]> => {
    const ofApp = db.selectFrom("versions").selectAll().where("appNumber", "=", appNumber);
    return (await ofApp.orderBy("number", "desc").execute()).map(fromRow);
  }),

  /** The versions of every app that is not deleted. */
  listAll: read(async ({ db }): Promise<Version[]> => {
    const rows = await db
      .selectFrom("versions")
      .innerJoin("apps", "apps.number", "versions.appNumber")
      .selectAll("versions")
      .where("apps.deletedAt", "is", null)
      .execute();
    return rows.map(fromRow);
  }),

  /** Changes the scaling of a version while it serves. False if there is no such version. */
  setOverrides: write(async (session, { id, overrides, held }: NewOverrides): Promise<boolean> => {
    if (held) await requireApp(session, held.appNumber, held.holder);
    return await change(session, id, { overrides: overrides && JSON.stringify(overrides) });
  }),

  /** Those of an app's versions that unfinished runs use. */
  inUse: read(async (session, appNumber: number): Promise<string[]> => {
    const unfinished = session.db.selectFrom("runs").select("versionId").where(isUnfinished(session));
    const rows = await unfinished.where("appNumber", "=", appNumber).distinct().execute();
    return rows.map(({ versionId }) => uuidText(versionId));
  }),

  /** Removes versions, except those that their apps serve. */
  remove: write(async ({ sql, db }, ids: readonly string[]): Promise<void> => {
    if (ids.length === 0) return;
    await sql`
      delete from versions where id in (${sql.join(ids.map(uuidBytes))}) and not exists (
        select 1 from apps where apps.deleted_at is null and apps.current_version_id = versions.id
      )
    `.execute(db);
  }),

  /** Records that the packages are in another folder now, and in no blob. */
  setEnvironment: write(
    async (session, { id, environment }: NewEnvironment): Promise<boolean> =>
      await change(session, id, { environment, ...NO_ENVIRONMENT_BLOB }),
  ),

  /** Records the functions that a replica reported. False if there is no such version. */
  setFunctions: write(
    async (session, { id, functions }: NewFunctions): Promise<boolean> =>
      await change(session, id, { functions: JSON.stringify(functions) }),
  ),
};

/** False if there is no such version. */
async function change(session: Session, id: string, columns: Partial<Row<"versions">>): Promise<boolean> {
  const update = session.db.updateTable("versions").set(columns).where("id", "=", uuidBytes(id));
  const changed = await firstOf(update.returning("appNumber"));
  if (!changed) return false;
  await noteChange(session, "app", changed.appNumber);
  return true;
}

function fromRow({ bundleDir: bundle, ...row }: Row<"versions">): Version {
  const config = JSON.parse(row.config) as AppConfig;
  const overrides = row.overrides === null ? null : (JSON.parse(row.overrides) as ScalingOverrides);
  return {
    ...row,
    bundle,
    id: uuidText(row.id),
    config: { ...config, scaling: { ...config.scaling, ...overrides } },
    overrides,
    functions: row.functions === null ? null : (JSON.parse(row.functions) as FunctionSignature[]),
  };
}

const COLLECTED_AT = "blobs_collected_at";

/** The blob with the packages of a version. */
export type EnvironmentBlob = Omit<VersionBlobs, "bundleBlob" | "bundleBytes">;

type NewBlobs = { readonly id: string; readonly blobs: VersionBlobs };

/** The blobs in which versions are stored. */
export const versionBlobs = {
  /** Names the blobs of a version, unless it names some already. Does nothing if there is no such version. */
  add: write(async ({ db }, { id, blobs }: NewBlobs): Promise<void> => {
    const { bundleBlob, bundleBytes, environmentBlob, environmentBytes, environmentTag } = blobs;
    const version = db.updateTable("versions").where("id", "=", uuidBytes(id));
    if (bundleBlob !== null)
      await version.set({ bundleBlob, bundleBytes }).where("bundleBlob", "is", null).execute();
    if (environmentBlob === null) return;
    const named = version.set({ environmentBlob, environmentBytes, environmentTag });
    await named.where("environmentBlob", "is", null).where("environment", "is not", null).execute();
  }),

  /** The blob of an environment, by its id; null if no version names one. */
  ofEnvironment: read(async ({ db }, environment: string): Promise<EnvironmentBlob | null> => {
    const query = db
      .selectFrom("versions")
      .select(["environmentBlob", "environmentBytes", "environmentTag"])
      .where("environment", "=", environment)
      .where("environmentBlob", "is not", null);
    return await firstOf(query.limit(1));
  }),

  /** Of these hashes, those that any version names, including versions of deleted apps. */
  named: read(async ({ db }, hashes: readonly string[]): Promise<string[]> => {
    const rows = await db
      .selectFrom("versions")
      .select(["bundleBlob", "environmentBlob"])
      .where((eb) => eb.or([eb("bundleBlob", "in", hashes), eb("environmentBlob", "in", hashes)]))
      .execute();
    return rows.flatMap((row) => [row.bundleBlob ?? [], row.environmentBlob ?? []].flat());
  }),

  /** Whether the caller is to collect unnamed blobs: true for one caller in each interval, by the database's clock. */
  takeCollection: write(async ({ db, databaseNow }, everyMs: number): Promise<boolean> => {
    const { now } = await db.selectNoFrom([databaseNow.as("now")]).executeTakeFirstOrThrow();
    const value = String(now);
    const first = db.insertInto("meta").values({ key: COLLECTED_AT, value }).onConflict(doNothing);
    if (await isDone(first)) return true;
    const stored = db.selectFrom("meta").select("value").where("key", "=", COLLECTED_AT);
    const last = await stored.executeTakeFirstOrThrow();
    if (now - Number(last.value) < everyMs) return false;
    const update = db.updateTable("meta").set({ value }).where("key", "=", COLLECTED_AT);
    return await isDone(update.where("value", "=", last.value));
  }),
};
