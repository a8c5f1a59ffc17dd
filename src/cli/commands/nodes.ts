import type { Command } from "commander";
import { NODE, NODES } from "../../shapes/nodes.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { relative } from "../output/amounts.ts";
import { paint, printableName } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";

type DrainFlags = RemoteFlags & { readonly undo?: boolean };

/** `millrace nodes [list|drain]` */
export function defineNodes(command: Command): void {
  const list = remote(command.command("list", { isDefault: true })).description("list the nodes");
  examples(list, "millrace nodes list").action(withService(listNodes));

  const drain = remote(command.command("drain")).description(
    "have a node hand its apps over to the others, and take no more until it restarts",
  );
  drain.argument("<node>", "the node's id or name");
  drain.option("--undo", "let it take apps again");
  examples(drain, "millrace nodes drain left", "millrace nodes drain left --undo").action(
    withService(drainNode),
  );
}

async function listNodes({ api, out }: Task): Promise<void> {
  const nodes = await api.get(NODES, "/v2/nodes");
  out.show(nodes, () =>
    table(
      ["", "NAME", "NODE", "ADDRESS", "STATE", "APPS", "RUNS", "SINCE", "RELEASE"],
      nodes.map((node) => [
        node.isSelf ? "*" : " ",
        printableName(node.name),
        node.id,
        node.url === null ? "-" : printableName(node.url),
        paint(node.state === "live" ? "green" : "yellow", node.state),
        String(node.apps),
        String(node.runs),
        relative(node.startedAt),
        printableName(node.release),
      ]),
    ),
  );
}

async function drainNode({ api, out, flags }: Task<DrainFlags>, wanted: string): Promise<void> {
  const [found, another] = (await api.get(NODES, "/v2/nodes")).filter(
    ({ id, name }) => id === wanted || name === wanted,
  );
  if (!found || another) {
    const problem = another ? "several nodes have the name" : "there is no node";
    throw usage(`${problem} ${JSON.stringify(wanted)}`, "millrace nodes shows their ids");
  }
  const state = flags.undo ? "live" : "leaving";
  const node = await api.ask(NODE, "PATCH", `/v2/nodes/${encodeURIComponent(found.id)}`, { body: { state } });
  out.show(node, () =>
    flags.undo
      ? `${printableName(node.name)} takes apps again.\n`
      : `${printableName(node.name)} hands its apps over and takes no more.\n`,
  );
  if (!flags.undo)
    out.note(`stop it when \`millrace nodes\` shows 0 apps, or: millrace nodes drain ${node.id} --undo`);
}
