import type { Command } from "commander";
import { VERSION } from "../../config/release.ts";
import { Output } from "../output/output.ts";
import { examples } from "../options.ts";

/** `millrace version` */
export function defineVersion(command: Command): void {
  command.option("--json", "print one JSON document");
  examples(command, "millrace version").action((flags: { json?: boolean }) => {
    const document = { version: VERSION, node: process.versions.node };
    new Output(flags).show(document, () => `${VERSION}\n`);
  });
}
