import { describe, expect, onTestFinished, test } from "vitest";
import { Mailer } from "../../../src/identity/mailer.ts";
import { createLog } from "../../../src/kit/log.ts";
import { HandClock } from "../../support/clocks.ts";
import { Tail } from "../../support/explain.ts";
import { MailServer, type MailServerOptions } from "../../support/mail-server.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const SECRET = "https://millrace.example/invitation#a-secret-that-nobody-may-see";
const PASSWORD = "the-password-of-the-server";
const LOGIN = { user: "millrace", password: PASSWORD };

async function open(options: MailServerOptions = {}) {
  const server = await MailServer.open(options);
  const clock = new HandClock();
  const tail = new Tail();
  const log = createLog("trace", tail);
  const mailer = new Mailer({ smtpUrl: server.url, smtpFrom: "no-reply@millrace.example", clock, log });
  onTestFinished(() => mailer.stop());
  const sent: string[] = [];
  const order = (to: string): void =>
    mailer.order({
      make: async () => ({ to, subject: "Hello", text: SECRET }),
      onSent: async () => void sent.push(to),
    });
  const logged = (what: string) => until(`it is logged: ${what}`, () => tail.text.includes(what));
  return { server, clock, tail, mailer, sent, order, logged };
}

describe("mail", () => {
  test("leaves after whoever ordered it has gone on, one at a time", async () => {
    const { server, clock, order, sent } = await open();
    for (const i of [1, 2, 3]) order(`a${i}@example.com`);
    expect([clock.pending, server.connections]).toEqual([3, 0]);
    clock.advance(2_000);
    await until("all are sent", () => sent.length === 3);
    expect(server.taken.map(({ to }) => to).toSorted()).toEqual(sent.toSorted());
    expect(clock.pending).toBe(0);
  });

  verifies(
    "mail.quiet",
    "waits in a bounded queue, is tried again, and its failures show no secret",
    async () => {
      const { server, clock, tail, order, sent, logged } = await open({
        login: LOGIN,
        answers: { AUTH: `535 ${PASSWORD}`, ".": `550 spam: ${SECRET}` },
      });
      order("ada@example.com");
      clock.advance(2_000);
      await logged("refused the login: 535");
      // For good: the same password would be refused again.
      expect(clock.pending).toBe(0);

      server.options = { login: LOGIN, answers: { RCPT: "450 later" } };
      order("ada@example.com");
      clock.advance(2_000);
      await logged("refused the recipient: 450 later");
      await until("it waits to be tried again", () => clock.pending === 1);
      server.options = { login: LOGIN };
      clock.advance(5_000);
      await until("it is sent", () => sent.length === 1);

      server.options = { login: LOGIN, answers: { ".": `550 spam: ${SECRET}` } };
      order("ada@example.com");
      clock.advance(2_000);
      await logged("refused the mail: 550");
      expect(sent).toHaveLength(1);

      for (let i = 0; i < 300; i++) order(`a${i}@example.com`);
      expect(clock.pending).toBe(200);
      await logged("too many mails are waiting");
      for (const secret of [PASSWORD, "a-secret", Buffer.from(SECRET).toString("base64").slice(0, 40)]) {
        expect(tail.text).not.toContain(secret);
      }
    },
  );

  test("that cannot be sent is given up after some tries", async () => {
    const { server, clock, tail, order, sent } = await open({ answers: { RCPT: "450 later" } });
    order("ada@example.com");
    for (const [i, ms] of [2_000, 5_000, 60_000, 600_000].entries()) {
      clock.advance(ms);
      await until("it was tried", () => tail.text.split("\n").length > i + 1);
    }
    expect([clock.pending, server.connections, sent]).toEqual([0, 4, []]);
  });

  test("that failed and waits takes no place from mail that others order", async () => {
    const { clock, tail, mailer, order, sent } = await open();
    const tried: number[] = [];
    const fail = (place: number): void =>
      mailer.order({
        make: async () => {
          tried.push(place);
          throw new Error("the database is away");
        },
      });
    for (let place = 0; place < 200; place++) fail(place);
    clock.advance(2_000);
    await until("all wait to be tried again", () => tried.length === 200 && clock.pending === 200);
    order("ada@example.com");
    fail(200);
    expect([clock.pending, tail.text.includes("dropped")]).toEqual([202, false]);
    clock.advance(2_000);
    await until("the new ones were tried", () => sent.length === 1 && tried.length === 201);
    await until("the oldest has made room", () => tail.text.includes("for a retry; dropped the oldest"));
    expect(clock.pending).toBe(200);
    clock.advance(5_000);
    await until("the others are tried again", () => tried.length === 401);
    expect(tried.slice(201)).not.toContain(tried[0]);
  });

  test("that nobody is to get is none, and a failure to make it is no end", async () => {
    const { server, clock, mailer, order, sent, logged } = await open();
    mailer.order({ make: async () => null });
    mailer.order({ make: async () => await Promise.reject(new Error("the database is away")) });
    order("ada@example.com");
    clock.advance(2_000);
    await logged("the database is away");
    await until("the next is sent", () => sent.length === 1);
    expect(server.connections).toBe(1);
  });

  test("stops at once, whatever the server does", async () => {
    const { server, clock, mailer, order, sent } = await open({ answers: { "": "220-wait" } });
    order("ada@example.com");
    clock.advance(2_000);
    await until("the server is asked", () => server.connections === 1, server.news);
    order("eve@example.com");
    await mailer.stop();
    order("joan@example.com");
    expect([clock.pending, sent]).toEqual([0, []]);
  });

  test("takes a minute at most, and is tried again", async () => {
    const { server, clock, order, logged } = await open({ answers: { "": "220-wait" } });
    order("ada@example.com");
    clock.advance(2_000);
    await until("the server is asked", () => server.connections === 1, server.news);
    clock.advance(60_000);
    await logged("it took too long");
    await until("it waits to be tried again", () => clock.pending === 1);
  });
});
