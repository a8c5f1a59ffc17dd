import { DatabaseError } from "pg";
import { AppError } from "../../src/model/errors.ts";
import { operationNamed } from "../../src/store/operations.ts";
import { translateError as fromPostgres } from "../../src/store/postgres/errors.ts";
import { translateError as fromSqlite } from "../../src/store/sqlite/messages.ts";
import type { Store } from "../../src/store/store.ts";
import type { Roll } from "./dice.ts";

type Call = (input: unknown) => Promise<unknown>;

/** What may become of a call: it is refused; it is done, or not, and nobody hears which. */
type Fault = "refused" | "done unheard" | "lost unheard";

/** Of the writes that fail, so many leave it open whether they were done. */
const UNHEARD_SHARE = 0.4;
/** Reads fail so much more seldom than writes. */
const READ_FACTOR = 0.25;

/** Stands between a service and its store, and lets a share of the calls fail by chance, as the databases report it. */
export class FaultyStore {
  /** Of all writes, from now on. */
  share = 0;
  /** How often each kind of fault was met, by operation. */
  readonly met = new Map<string, number>();
  readonly #roll: Roll;

  constructor(roll: Roll) {
    this.#roll = roll;
  }

  /** How many faults were met in all, of that kind or of every one. */
  count(fault: Fault | "" = ""): number {
    return [...this.met].reduce((sum, [name, count]) => sum + (name.endsWith(fault) ? count : 0), 0);
  }

  readonly aroundStore = (store: Store): Store => {
    const tables = Object.entries(store).map(([table, operations]) => {
      if (typeof operations !== "object" || table === "commits") return [table, operations];
      const calls = Object.entries(operations as Record<string, Call>).map(([name, call]) => [
        name,
        this.#around(`${table}.${name}`, call),
      ]);
      return [table, Object.fromEntries(calls)];
    });
    return Object.fromEntries(tables) as Store;
  };

  #around(name: string, call: Call): Call {
    const isRead = operationNamed(name).mode === "read";
    return async (input) => {
      if (this.#roll(1) >= this.share * (isRead ? READ_FACTOR : 1)) return await call(input);
      const fault = isRead || this.#roll(1) >= UNHEARD_SHARE ? "refused" : this.#unheard();
      this.met.set(`${name} ${fault}`, (this.met.get(`${name} ${fault}`) ?? 0) + 1);
      if (fault === "done unheard") await call(input);
      throw fault === "refused"
        ? this.#refusal()
        : new AppError("in_doubt", {}, new Error("the thread ended"));
    };
  }

  #unheard(): Fault {
    return this.#roll(1) < 0.5 ? "done unheard" : "lost unheard";
  }

  #refusal(): unknown {
    const reports = [
      () => fromSqlite(sqliteError("database or disk is full", 13)),
      () => fromSqlite(sqliteError("disk I/O error", 778)),
      () => fromSqlite(sqliteError("disk I/O error", 1034)),
      () => fromPostgres(stated("could not extend file: No space left on device", "53100"), "write"),
      () => fromPostgres(stated("could not write to file: Input/output error", "58030"), "write"),
    ];
    return reports[Math.floor(this.#roll(reports.length))]?.();
  }
}

function sqliteError(message: string, errcode: number): Error {
  return Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode });
}

/** As the server reports a statement that failed. */
function stated(message: string, code: string): Error {
  return Object.assign(new DatabaseError(message, 0, "error"), { code, severity: "ERROR" });
}
