import { read } from "./operation.ts";

/** What is stored of one app. */
export type AppStorage = {
  readonly projectId: string;
  readonly name: string;
  readonly runs: number;
  /** Of inputs and results. */
  readonly payloadBytes: number;
  readonly transcriptBytes: number;
  readonly logBytes: number;
  readonly builds: number;
};

/** Who uses what. It reads every key of an app's runs: for an operator who asks, not for every moment. */
export const appStorage = {
  list: read(async ({ sql, db }): Promise<AppStorage[]> => {
    const { rows } = await sql<Record<keyof AppStorage, string | number>>`
      select a.project_id, a.name,
        (select count(*) from runs as t where t.app_number = a.number) as runs,
        (select coalesce(sum(coalesce(length(t.input), 0) + coalesce(length(t.result), 0)), 0)
          from payloads as t where t.app_number = a.number) as payload_bytes,
        (select coalesce(sum(length(t.bytes)), 0)
          from transcripts as t where t.app_number = a.number) as transcript_bytes,
        (select coalesce(sum(t.bytes), 0) from log_usage as t where t.app_number = a.number) as log_bytes,
        (select count(*) from builds as t where t.app_number = a.number) as builds
      from apps as a where a.deleted_at is null order by a.project_id, a.name
    `.execute(db);
    // Postgres gives sums and counts as text.
    return rows.map((row) => ({
      projectId: String(row.projectId),
      name: String(row.name),
      runs: Number(row.runs),
      payloadBytes: Number(row.payloadBytes),
      transcriptBytes: Number(row.transcriptBytes),
      logBytes: Number(row.logBytes),
      builds: Number(row.builds),
    }));
  }),
};
