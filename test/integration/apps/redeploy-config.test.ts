import { expect } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "def run():\n    return 1\n";

verifies(
  "config.absent",
  "a key left out of the next deploy is the default again, not the value of the deploy before",
  async () => {
    const test = await testService();
    const scaling = async (toml: string) =>
      (await test.deploy("app", { main: MAIN, toml })).version.config.scaling;
    expect(await scaling("[scaling]\ncooldown = 7\nmax_queue = 3")).toMatchObject({
      cooldownSeconds: 7,
      maxQueue: 3,
    });
    expect(await scaling("[scaling]\nmax_queue = 4")).toMatchObject({ cooldownSeconds: 30, maxQueue: 4 });
  },
);
