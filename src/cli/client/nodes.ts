import { NODE, NODES } from "../../shapes/installation.ts";
import { type Definitions } from "../options.ts";
import { paint, printableName, relative } from "../output.ts";
import { asking, asks, type RemoteFlags, type Task, theOne } from "./task.ts";

export const COMMANDS: Definitions = {
  nodes(command) {
    const list = command.command("list", { isDefault: true }).description("list the nodes");
    asks(list, listNodes, "millrace nodes list");
    asking(
      command,
      "drain",
      "have a node hand its apps over to the others, and take no more until it restarts",
      drainNode,
      "left",
      "left --undo",
    )
      .argument("<node>", "the node's id or name")
      .option("--undo", "let it take apps again");
  },
};

async function listNodes({ api, out }: Task): Promise<void> {
  out.list(await api.get(NODES, "/v2/nodes"), {
    "": ({ isSelf }) => (isSelf ? "*" : " "),
    NAME: ({ name }) => printableName(name),
    NODE: ({ id }) => id,
    ADDRESS: ({ url }) => (url === null ? "-" : printableName(url)),
    STATE: ({ state }) => paint(state === "live" ? "green" : "yellow", state),
    APPS: ({ apps }) => String(apps),
    RUNS: ({ runs }) => String(runs),
    SINCE: ({ startedAt }) => relative(startedAt),
    RELEASE: ({ release }) => printableName(release),
  });
}

async function drainNode(
  { api, out, flags }: Task<RemoteFlags & { readonly undo?: boolean }>,
  wanted: string,
): Promise<void> {
  const { id } = theOne(await api.get(NODES, "/v2/nodes"), wanted, ({ name }) => name === wanted, {
    none: "there is no node",
    several: "several nodes have the name",
    hint: "millrace nodes shows their ids",
  });
  const body = { state: flags.undo ? "live" : "leaving" };
  const node = await api.ask(NODE, "PATCH", `/v2/nodes/${encodeURIComponent(id)}`, { body });
  const then = flags.undo ? "takes apps again" : "hands its apps over and takes no more";
  out.show(node, () => `${printableName(node.name)} ${then}.\n`);
  if (!flags.undo)
    out.note(`stop it when \`millrace nodes\` shows 0 apps, or: millrace nodes drain ${node.id} --undo`);
}
