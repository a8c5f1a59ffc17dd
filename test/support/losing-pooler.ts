import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { onTestFinished } from "vitest";

/** How the server ends each answer: ready for the next query, outside of a transaction. */
const READY = Buffer.from("Z\0\0\0\x05I", "latin1");

/**
 * A way to a Postgres, as a pooler is one. It can lose the server's answer to the next query, which is done by then,
 * and say so in words of its own, or by closing the connection without any.
 */
export class LosingPooler {
  /** The database, by this way. */
  readonly url: string;
  /** How many answers were lost. */
  lost = 0;
  #words: Buffer | null = null;

  private constructor(url: string) {
    this.url = url;
  }

  /** It ends with the test. */
  static async open(databaseUrl: string): Promise<LosingPooler> {
    const { username, password, hostname, port, pathname } = new URL(databaseUrl);
    const host = decodeURIComponent(hostname);
    const number = Number(port || 5432);
    const server = createServer((client) => {
      const target = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${number}`) : connect(number, host);
      for (const socket of [client, target]) {
        socket.on("error", () => {});
        socket.on("close", () => {
          client.destroy();
          target.destroy();
        });
      }
      let words: Buffer | null = null;
      client.on("data", (data) => {
        // Not those by which a connection is made.
        const isQuery = "PBQ".includes(String.fromCharCode(data[0]!));
        if (isQuery) [words, pooler.#words] = [words ?? pooler.#words, null];
        target.write(data);
      });
      target.on("data", (data) => {
        if (!words) client.write(data);
        else if (data.subarray(-READY.length).equals(READY)) {
          pooler.lost += 1;
          client.end(words);
        }
      });
      onTestFinished(() => void client.destroy());
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const credentials = password ? `${username}:${password}` : username;
    const { port: ownPort } = server.address() as AddressInfo;
    const pooler = new LosingPooler(`postgres://${credentials}@127.0.0.1:${ownPort}${pathname}`);
    onTestFinished(() => void server.close());
    return pooler;
  }

  /** The answer to what is asked next is lost; null for a connection that closes without a word. */
  loseNext(sqlState: string | null): void {
    this.#words = sqlState === null ? Buffer.alloc(0) : errorResponse(sqlState);
  }
}

function errorResponse(sqlState: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlState}\0Mserver conn crashed?\0\0`);
  const head = Buffer.from("E\0\0\0\0");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
