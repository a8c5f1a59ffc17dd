import { type AddressInfo, createServer, type Socket } from "node:net";
import { once } from "node:events";
import { expect, onTestFinished, test, vi } from "vitest";
import { SmtpError, readMailServer, sendMail } from "../../../src/kit/smtp.ts";

/** Loading nodemailer lasts until the end of the test. */
const { gate } = vi.hoisted(() => ({ gate: Promise.withResolvers<void>() }));
vi.mock("nodemailer", async (actual) => {
  await gate.promise;
  return await actual();
});

for (const [how, breakIt] of [
  ["that the server resets", (socket: Socket) => void socket.resetAndDestroy()],
  ["that the service gives up", (_: Socket, limit: AbortController) => limit.abort()],
] as const) {
  test(`a connection ${how} before nodemailer is loaded fails the mail at once`, async () => {
    const limit = new AbortController();
    const server = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => {
      gate.resolve();
      server.close();
    });
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const sending = sendMail(
      readMailServer(`smtp://127.0.0.1:${port}`)!,
      { to: "ada@example.com", subject: "Hello", text: "Hello" },
      { from: { address: "no-reply@example.com", name: null }, now: 0 },
      limit.signal,
    );
    const [socket] = (await once(server, "connection")) as [Socket];
    socket.on("error", () => {});
    // The sender has seen that it is connected.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    breakIt(socket, limit);
    const error: unknown = await sending.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SmtpError);
    expect((error as SmtpError).isTransient).toBe(true);
    socket.destroy();
  });
}
