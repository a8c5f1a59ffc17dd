import { availableParallelism } from "node:os";
import { readAppConfig } from "../../config/app-config.ts";
import type { AppConfig } from "../../model/app-config.ts";

/** What holds for an app that has no configuration. */
export function defaultConfig(): AppConfig {
  return readAppConfig({ host: { cpuCount: availableParallelism() } }).config;
}
