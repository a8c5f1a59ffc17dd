import type { Command } from "commander";
import { FILES, REMOVED_FILE } from "../../shapes/files.ts";
import { examples, remote } from "../options.ts";
import { bytes, relative } from "../output/amounts.ts";
import { confirm } from "../output/confirm.ts";
import { paint, printableName } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";
import { download } from "./files-download.ts";
import { upload } from "./files-upload.ts";

/** `millrace files ls|cp|download|rm` */
export function defineFiles(command: Command): void {
  const ls = remote(command.command("ls")).description("list a folder of the storage");
  ls.argument("[folder]", "the folder (default: the root)");
  examples(ls, "millrace files ls models").action(withService(list));

  const cp = remote(command.command("cp")).description("upload a file or folder to the storage");
  cp.argument("<from>", "a local file or folder").argument(
    "[to]",
    "where it goes; a path that ends with / is a folder (default: the same name, at the root)",
  );
  examples(cp, "millrace files cp weights.bin models/").action(withService(upload));

  const fetch = remote(command.command("download")).description("download a file from the storage");
  fetch
    .argument("<from>", "a file in the storage")
    .argument("[to]", "a local file or folder, or - for stdout (default: the file's own name)")
    .option("--force", "overwrite an existing file");
  examples(fetch, "millrace files download models/weights.bin").action(withService(download));

  const rm = remote(command.command("rm")).description("remove a file, or a folder if the path ends with /");
  rm.argument("<path>", "the file or folder").option("--yes", "remove a folder without asking");
  examples(rm, "millrace files rm models/old/ --yes").action(withService(remove));
}

async function list({ api, out }: Task, folder = "/"): Promise<void> {
  const found = await api.get(FILES, await api.path("volumes/default/ls"), { query: { dir: folder } });
  out.show(found, () =>
    table(
      ["NAME", "SIZE", "MODIFIED"],
      found.map(({ name, is_folder: isFolder, size_bytes: size, last_modified: modified }) => [
        isFolder ? paint("cyan", `${printableName(name)}/`) : printableName(name),
        isFolder ? "–" : bytes(size),
        relative(modified),
      ]),
    ),
  );
  if (found.length === 0) out.note(`${folder} is empty`);
}

async function remove(task: Task<RemoteFlags & { yes?: boolean }>, target: string): Promise<void> {
  const { api, flags, out, signal } = task;
  if (target.endsWith("/")) await confirm(`Remove ${target} and everything in it?`, flags, signal);
  const query = { file_path: target };
  const answer = await api.ask(REMOVED_FILE, "DELETE", await api.path("volumes/default/rm"), { query });
  out.show(answer, () => `${target} is removed.\n`);
}
