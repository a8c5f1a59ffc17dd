import type { RemoteFlags } from "../task.ts";

/** The options of `millrace call`. */
export type CallFlags = RemoteFlags & {
  readonly data?: string;
  readonly header?: readonly string[];
  readonly method?: string;
  readonly ws?: boolean;
  readonly linger?: string;
  readonly async?: boolean;
  readonly wait?: boolean;
  readonly stream?: boolean;
  readonly webhook?: string;
  readonly key?: string;
};
