import type { Command } from "commander";
import { CONTAINERS } from "../../shapes/apps.ts";
import { examples, remote } from "../options.ts";
import { duration, relative } from "../output/amounts.ts";
import { paintStatus } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { Task } from "../task.ts";

/** `millrace containers list APP` */
export function defineContainers(command: Command): void {
  const list = remote(command.command("list"))
    .description("list an app's current replicas")
    .argument("<app>", "the app's name");
  examples(list, "millrace containers list hello").action(withService(listContainers));
}

async function listContainers({ api, out }: Task, app: string): Promise<void> {
  const found = await api.get(CONTAINERS, await api.appPath(app, "/containers"), { about: { app } });
  out.show(found, () =>
    table(
      ["CONTAINER", "STATE", "STARTED", "READY FOR", "BUILD"],
      found.map((container) => [
        container.containerId,
        container.isTerminating ? "stopping" : paintStatus(container.containerState),
        relative(container.containerStartTimestamp),
        duration(container.containerRunningTimeMs),
        container.buildId,
      ]),
    ),
  );
  for (const { containerId, pendingReason } of found)
    if (pendingReason) out.note(`${containerId} waits: ${pendingReason}`);
  if (found.length === 0) out.note("none: the next call starts one");
}
