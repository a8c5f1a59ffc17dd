import path from "node:path";
import { bytesBelow } from "../apps/storage-report.ts";
import { envOf, SETTING_KEYS } from "../config/setting-keys.ts";
import type { Settings } from "../config/setting-keys.ts";
import type { DatabaseReport } from "../store/upkeep/report.ts";
import { ok, warn } from "./finding.ts";
import type { Finding } from "./finding.ts";
import { bytes } from "./output/amounts.ts";

/** Past this part of a bound the oldest are about to go, or go already. */
const NEARLY_ALL = 0.9;

/** How much there is of what grows, and whether old things go before their time because there is too much. */
export async function checkStorage(
  report: DatabaseReport | Error | null,
  settings: Settings,
): Promise<Finding[]> {
  if (report === null || report instanceof Error) return [];
  const { runs, payloadBytes, logBytes, builds, deliveries } = report.amounts;
  const bounded = [
    { name: "runs", used: runs, key: "maxRuns", text: String },
    { name: "payloads and transcripts", used: payloadBytes, key: "maxStorageBytes", text: bytes },
    { name: "logs", used: logBytes, key: "maxLogBytes", text: bytes },
  ] as const;
  const environments = await bytesBelow(path.join(settings.dataDir, "environments"));
  const message = [
    ...bounded.map(({ name, used, key, text }) => `${name} ${text(used)} of ${text(settings[key])}`),
    `builds ${builds}`,
    `deliveries ${deliveries}`,
    `environments ${bytes(environments)}`,
  ].join(", ");
  const full = bounded.filter(({ used, key }) => used > NEARLY_ALL * settings[key]);
  if (full.length === 0) return [ok("storage", message)];
  const names = full.map(({ key }) => envOf(SETTING_KEYS[key].name)).join(" and ");
  return [
    warn(
      "storage",
      message,
      `the oldest are removed to make room: raise ${names}, or see what uses it with millrace storage`,
    ),
  ];
}
