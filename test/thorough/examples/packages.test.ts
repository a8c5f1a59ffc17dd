import { mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, type TestContext, vi } from "vitest";
import { WebSocket } from "ws";
import { ReaderHome } from "../../support/example-folders.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { wheelsOf } from "../../support/wheels.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService();
const home = new ReaderHome(mkdtempSync(path.join(tmpdir(), "millrace-examples-")));
let wheels: string | null = null;

beforeAll(async () => {
  wheels = await wheelsOf("fastapi", "uvicorn", "websockets");
  // The builds find them there, and ask no index.
  vi.stubEnv("PIP_FIND_LINKS", wheels ?? "");
  vi.stubEnv("PIP_NO_INDEX", "1");
});

afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(home.folder, { recursive: true, force: true });
});

/** Runs the commands of an example's README, if its packages can be had; gives what each printed. */
async function readme(name: string, context: TestContext): Promise<string[]> {
  context.skip(wheels === null, `NOT TESTED: the packages of examples/${name} cannot be had here`);
  home.asItIs(name);
  return await home.tryReadme(name, service());
}

describe("the examples with packages", () => {
  verifies(["examples.work", "docs.blocks"], "fastapi checks orders and streams ticks", async (context) => {
    const [deployed, ordered, ticks] = await readme("fastapi", context);
    expect(deployed).toContain("fastapi is deployed");
    expect(JSON.parse(ordered ?? "")).toEqual({ item: "wheel", count: 2, price: 240 });
    expect(ticks).toBe("tick 1\ntick 2\ntick 3\n");
    const wrong = await service().call("fastapi", { item: "gate", count: 0 }, { functionName: "orders" });
    expect([wrong.status, wrong.json.detail]).toEqual([
      422,
      [expect.objectContaining({ loc: ["body", "count"] })],
    ]);
  });

  verifies(
    ["examples.work", "docs.blocks"],
    "gpu streams words from the GPU in setup(), or from the CPU and says so",
    async () => {
      for (const [hasGpu, device, said] of [
        [false, "CPU", "no GPU: this replica computes on the CPU"],
        [true, "NVIDIA H100", "this replica computes on NVIDIA H100"],
      ] as const) {
        home.withoutPackages("gpu", { "torch.py": TORCH(hasGpu) });
        const [deployed, where, words] = await home.tryReadme("gpu", service());
        expect(deployed).toContain("gpu is deployed");
        expect(JSON.parse(where ?? "")).toEqual({ device, gpu_memory_bytes: null });
        expect(words?.trim().split(/\s+/)).toHaveLength(20);
        await until("what its log says", () => service().logs.some(({ text }) => text === said));
      }
    },
  );

  verifies(
    ["examples.work", "docs.blocks"],
    "rooms passes messages to everyone in a room",
    async (context) => {
      const [deployed] = await readme("rooms", context);
      expect(deployed).toContain("rooms is deployed");
      const [ada, bo, other] = await Promise.all([enter("hall"), enter("hall"), enter("cellar")]);
      const heard = [once(ada, "message"), once(bo, "message")];
      ada.send("who is there?");
      for (const [data] of await Promise.all(heard)) expect(String(data)).toBe("who is there?");
      other.send("nobody");
      expect(String((await once(other, "message"))[0])).toBe("nobody");
      for (const visitor of [ada, bo, other]) visitor.close();
      await Promise.all([ada, bo, other].map(async (visitor) => await once(visitor, "close")));
    },
  );
});

/** As much of PyTorch as the example needs, on a machine with a GPU or without. */
const TORCH = (hasGpu: boolean) => `
import random
from types import SimpleNamespace

class tensor(list):
    device = "cpu"
    def to(self, device):
        moved = tensor(self)
        moved.device = device
        return moved

def multinomial(row, count):
    return SimpleNamespace(item=lambda: random.choices(range(len(row)), weights=row)[0])

cuda = SimpleNamespace(
    is_available=lambda: ${hasGpu ? "True" : "False"},
    get_device_name=lambda index: "NVIDIA H100",
    get_device_properties=lambda index: SimpleNamespace(total_memory=80_000_000_000),
)
`;

async function enter(room: string): Promise<WebSocket> {
  const { token } = service().service.owner;
  const socket = new WebSocket(service().url("rooms", room).replace(/^http/, "ws"), {
    headers: { authorization: `Bearer ${token}` },
  });
  await once(socket, "open");
  return socket;
}
