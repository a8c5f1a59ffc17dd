import { expect } from "vitest";
import { NotFound, Unauthorized } from "../../../src/client/client.ts";
import { callAccount, userToken } from "../../support/call-tokens.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy } from "./cutting-proxy.ts";
import { CLIENTS_MAIN, clientOf } from "./site.ts";

const service = sharedService({
  app: { main: CLIENTS_MAIN, toml: "[scaling]\nmax_replicas = 2\nreplica_concurrency = 4\n" },
});

verifies(
  ["call.own-runs", "revoked.streams"],
  "with an end user's token the client does all it can, sees no other user's run, and is told when it ends",
  async () => {
    const account = await callAccount(service(), { apps: ["app"] });
    const client = async (user: string, url = service().service.apiUrl) =>
      clientOf(service(), url, { token: await userToken(service(), account, user) });
    const [ada, grace] = [await client("ada"), await client("grace")];
    // It waits with `Prefer`, and polls for the rest.
    const { runId } = await ada.run("app", { name: "Ada" }, { retries: 2 });
    expect((await (await ada.runAsync("app", { name: "Ada" })).wait()).result).toEqual({
      message: "Hello, Ada!",
    });
    expect((await ada.app("app").find(runId).record()).status).toBe("success");
    await expect(grace.app("app").find(runId).record()).rejects.toThrow(NotFound);
    await expect(grace.app("app").find(runId).cancel()).rejects.toThrow(NotFound);
    // A connection that breaks is taken up again by the same user.
    const { apiUrl } = service().service;
    const proxy = await CuttingProxy.open(apiUrl, (cuts) =>
      cuts < 3 ? { afterBytes: 900, isReset: true } : null,
    );
    const far = await client("ada", proxy.url);
    const messages: string[] = [];
    for await (const message of far.stream("app", { upto: 40, pause: 0.005 }, { function: "mixed" }))
      messages.push(message);
    expect(proxy.cuts).toBe(3);
    expect(messages.at(-1)).toMatch(/"i":40,/);

    const stream = ada.stream("app", {}, { function: "ticking" });
    const { tokens, owner } = service().service;
    const read = async (): Promise<void> => {
      for await (const message of stream)
        if (message === "m3") await tokens.revoke(owner.projectId, account.accountId);
    };
    await expect(read()).rejects.toThrow(Unauthorized);
    await expect(ada.run("app")).rejects.toThrow(Unauthorized);
    // The client has asked for its run to go on without it.
    expect(
      await clientOf(service())
        .app("app")
        .find(stream.runId ?? "")
        .cancel(),
    ).toBe(true);
  },
);
