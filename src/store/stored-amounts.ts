/** How much the database holds. */
export type StoredAmounts = {
  readonly runs: number;
  /** Of inputs, results and transcripts. */
  readonly payloadBytes: number;
  readonly logBytes: number;
  readonly builds: number;
  readonly deliveries: number;
};

const QUERY = `
  select (select coalesce(sum(runs), 0) from usage) as runs,
    (select coalesce(sum(bytes), 0) from usage) as payloads,
    (select coalesce(sum(bytes), 0) from log_usage) as logs,
    (select count(*) from builds) as builds,
    (select count(*) from deliveries) as deliveries`;

/** Reads how much a database holds. */
export async function storedAmounts(
  ask: (query: string) => Promise<readonly unknown[]> | readonly unknown[],
): Promise<StoredAmounts> {
  const [row] = (await ask(QUERY)) as readonly Record<string, number | string>[];
  // Postgres gives sums and counts as text.
  const amount = (name: string): number => Number(row?.[name] ?? 0);
  return {
    runs: amount("runs"),
    payloadBytes: amount("payloads"),
    logBytes: amount("logs"),
    builds: amount("builds"),
    deliveries: amount("deliveries"),
  };
}
