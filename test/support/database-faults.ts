import { Client } from "pg";
import type { PostgresServer } from "./postgres-server.ts";
import type { SilentProxy } from "./silent-proxy.ts";
import { until } from "./until.ts";

/** Something that befalls a database, and its end. */
export type DatabaseFault = {
  readonly name: string;
  begin(): Promise<void> | void;
  heal(): Promise<void> | void;
};

/** What the server itself can suffer while its service reaches it directly. */
export function serverFaults(server: PostgresServer): DatabaseFault[] {
  return [
    { name: "frozen", begin: () => server.freeze(true), heal: () => server.freeze(false) },
    { name: "stopped and started", begin: () => server.end("INT"), heal: () => started(server) },
    { name: "killed and started", begin: () => server.end("KILL"), heal: () => started(server) },
    outOfConnections(server),
    readOnly(server, "read-only, all of it", {
      begin: ["alter system set default_transaction_read_only = on", "select pg_reload_conf()"],
      heal: ["alter system reset default_transaction_read_only", "select pg_reload_conf()"],
    }),
    // Sessions that began meanwhile stay read-only when it is over.
    readOnly(server, "read-only, new sessions", {
      begin: [`alter role postgres set default_transaction_read_only = on`, END_SESSIONS],
      heal: [`alter role postgres reset default_transaction_read_only`],
    }),
  ];
}

/** What can happen on the way to it. */
export function wayFaults(proxy: SilentProxy): DatabaseFault[] {
  return [
    { name: "cut, silently", begin: () => proxy.fallSilent(), heal: () => proxy.speak() },
    { name: "cut, with resets", begin: () => proxy.reset(), heal: () => proxy.speak() },
  ];
}

/** No room on its disk. One whose log lies there too ends itself; whoever looks after it starts it again and again. */
export function diskFault(server: PostgresServer, hasLog: boolean): DatabaseFault {
  return {
    name: hasLog ? "out of disk, its log too" : "out of disk",
    begin: () => server.fillDisk(true),
    heal: async () => {
      server.fillDisk(false);
      // It may still be about to end itself.
      await until("Postgres answers again", async () => {
        if (!server.isRunning) await started(server);
        return await answers(server);
      });
    },
  };
}

/** The first is killed and never comes back; the one that followed it takes its place. */
export function promotion(primary: PostgresServer, standby: PostgresServer): DatabaseFault {
  return {
    name: "a standby promoted",
    begin: () => primary.end("KILL"),
    heal: () => asking(standby, ["select pg_promote()"]),
  };
}

const END_SESSIONS =
  "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'millrace'";

const MAX_CONNECTIONS = "select current_setting('max_connections')::int as max";

function readOnly(
  server: PostgresServer,
  name: string,
  { begin, heal }: { readonly begin: readonly string[]; readonly heal: readonly string[] },
): DatabaseFault {
  const writable = "set default_transaction_read_only = off";
  return { name, begin: () => asking(server, begin), heal: () => asking(server, [writable, ...heal]) };
}

/** Others take every connection there is, the service's own too. */
function outOfConnections(server: PostgresServer): DatabaseFault {
  const others: Client[] = [];
  return {
    name: "out of connections",
    begin: async () => {
      for (;;) {
        await takeAll(server, others);
        const { rows } = await others[0]!.query<{ max: number }>(MAX_CONNECTIONS);
        // All of them: a session of the service that is just beginning is on no list yet.
        if (others.length === rows[0]?.max) return;
        await others[0]!.query(END_SESSIONS);
      }
    },
    heal: async () => {
      await Promise.all(others.splice(0).map((client) => client.end()));
    },
  };
}

async function takeAll(server: PostgresServer, taken: Client[]): Promise<void> {
  for (;;) {
    const client = new Client({ connectionString: server.url });
    client.on("error", () => {});
    try {
      await client.connect();
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "53300") return;
      throw error;
    }
    taken.push(client);
  }
}

async function answers(server: PostgresServer): Promise<boolean> {
  const client = new Client({ connectionString: server.url });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("select 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

async function started(server: PostgresServer): Promise<void> {
  if (!(await server.start())) throw new Error("Postgres did not start again");
}

async function asking(server: PostgresServer, statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
