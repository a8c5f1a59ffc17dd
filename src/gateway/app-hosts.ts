import { Batcher } from "../kit/batcher.ts";
import { labelBelow } from "../kit/http-head.ts";
import { hostLabel, mayBeHashed, readHostLabel } from "../model/app-host.ts";
import type { HostedApp } from "../model/app-host.ts";
import { AppError } from "../model/errors.ts";

export type HostParts = {
  /** The domain whose subdomains are app hosts; null if the setting is unset. */
  readonly appHosts: string | null;
  /** Finds apps by their hashed labels; labels without an app are left out. */
  readonly findHosted: (labels: readonly string[]) => Promise<readonly HostedApp[]>;
};

const LABELS_AT_ONCE = 100;
const MAX_KNOWN = 4096;

/**
 * Resolves a Host header to an app. Only hashed labels need a lookup. Callers have not presented a token at this point
 * and can make labels up, so lookups are batched and one statement runs at a time. A resolved label is cached without
 * expiry, because it can never mean another app.
 */
export class AppHosts {
  readonly #domain: string;
  readonly #lookups: Batcher<string, ReadonlyMap<string, HostedApp>>;
  /** By label. */
  readonly #hashed = new Map<string, HostedApp>();

  constructor(domain: string, findHosted: HostParts["findHosted"]) {
    this.#domain = domain;
    this.#lookups = new Batcher(
      async (labels): Promise<ReadonlyMap<string, HostedApp>> => {
        const apps = await findHosted([...new Set(labels)]);
        return new Map(apps.map((app) => [hostLabel(app) ?? "", app]));
      },
      { maxItems: LABELS_AT_ONCE },
    );
  }

  /**
   * The app that a host names; null if the host is not below the domain. Throws `misdirected` if it is below the domain
   * but cannot be an app's. Does not check that the app exists: callers without a token must not learn that.
   */
  find(host: string): HostedApp | null | Promise<HostedApp> {
    const label = labelBelow(host, this.#domain);
    if (label === null) return null;
    const named = readHostLabel(label);
    if (!mayBeHashed(label)) return named ?? misdirected();
    return this.#hashed.get(label) ?? this.#lookUp(label, named);
  }

  async #lookUp(label: string, named: HostedApp | null): Promise<HostedApp> {
    const found = (await this.#lookups.add(label)).get(label);
    if (!found) return named ?? misdirected();
    if (this.#hashed.size >= MAX_KNOWN) this.#hashed.clear();
    this.#hashed.set(label, found);
    return found;
  }
}

function misdirected(): never {
  throw new AppError("misdirected");
}
