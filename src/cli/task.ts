import { Api } from "./api/api.ts";
import { findSite } from "./api/site.ts";
import type { SiteFlags } from "./api/site.ts";
import { interruptible } from "./interrupt.ts";
import { Output } from "./output/output.ts";

/** What every command that asks a service takes. */
export type RemoteFlags = SiteFlags & { readonly json?: boolean };

/** What a command works with. */
export type Task<Flags extends RemoteFlags = RemoteFlags> = {
  readonly api: Api;
  readonly flags: Flags;
  readonly out: Output;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
};

/** Makes an action of work that asks a service; the words that were typed follow the task. */
export function withService<Flags extends RemoteFlags>(
  work: (task: Task<Flags>, ...words: never[]) => Promise<void>,
): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    // The parser gives the words, then the flags, then itself.
    const words = given.slice(0, -2) as never[];
    const flags = given.at(-2) as Flags;
    await interruptible(async (signal) => {
      const api = new Api(await findSite(flags), signal);
      await work({ api, flags, out: new Output(flags), signal }, ...words);
    });
  };
}
