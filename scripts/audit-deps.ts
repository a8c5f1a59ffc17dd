import { spawnSync } from "node:child_process";
import { judgeAudit } from "./judge-audit.ts";

// What users install, against the advisories that the configured registry lists. Part of a release, not of the
// tests: it needs the network, and its answer changes without a change here.
const { stdout, error } = spawnSync("npm", ["audit", "--omit=dev", "--json"], {
  encoding: "utf8",
  maxBuffer: 2 ** 26,
});
const { exitCode, lines } = judgeAudit(error ? error.message : stdout);
console.log(lines.join("\n"));
process.exitCode = exitCode;
