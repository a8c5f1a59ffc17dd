import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import { POLL_SECONDS } from "../identity/devices.ts";
import type { Devices } from "../identity/devices.ts";
import { requirePerson } from "../identity/principal.ts";
import type { Sessions } from "../identity/sessions.ts";
import { AppError } from "../model/errors.ts";
import { DONE } from "../shapes/common.ts";
import { DEVICE_CODES, TOKENS, TOKEN_REFUSAL } from "../shapes/devices.ts";
import { baseUrlOf } from "./api/base-url.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";

export type DeviceParts = {
  readonly devices: Devices;
  readonly sessions: Sessions;
  readonly audit: Pick<Audit, "record">;
  readonly publicBaseUrl: string | null;
};

const TAG = "Sign-in";

const SECRET = z.string().min(1).max(1000);
const TOKEN_REQUEST = z.union([
  z.object({ device_code: SECRET }),
  z.object({
    grant_type: z.literal("refresh_token"),
    client_id: z.string().max(1000).optional(),
    refresh_token: SECRET,
  }),
]);

/** Sign-in of a command line: it shows a code, a person who is signed in approves it, it gets its tokens. */
export function deviceOperations({ devices, sessions, audit, publicBaseUrl }: DeviceParts): AnyOperation[] {
  return [
    operation({
      method: "POST",
      path: "/device-authorization",
      id: "askForDevice",
      tag: TAG,
      summary: "Request a device code for a person to approve",
      access: null,
      response: DEVICE_CODES,
      errors: ["too_many_requests"],
      handle: async ({ ip, reply }) => {
        const { deviceCode, userCode, expiresInSeconds } = await devices.ask(ip);
        const page = `${baseUrlOf(reply.request, publicBaseUrl)}/device`;
        reply.header("cache-control", "no-store");
        return {
          deviceAuthResponsePayload: {
            device_code: deviceCode,
            user_code: userCode,
            verification_uri: page,
            verification_uri_complete: `${page}?user_code=${userCode}`,
            expires_in: expiresInSeconds,
            interval: POLL_SECONDS,
          },
        };
      },
    }),

    operation({
      method: "POST",
      path: "/device/approve",
      id: "approveDevice",
      tag: TAG,
      summary: "Approve a device code; the device is signed in as you",
      access: "person",
      body: z.object({ user_code: z.string().min(1).max(50) }),
      response: DONE,
      errors: ["not_found", "too_many_requests"],
      handle: async ({ body, principal, ip, requestId }) => {
        const { personId } = requirePerson(principal);
        if (!(await devices.approve(body.user_code, personId))) {
          throw new AppError("not_found", {
            message: "No device is waiting with this code; it may have expired.",
          });
        }
        const entry = { projectId: null, before: null, after: null, principal, ip, requestId };
        await audit.record({ ...entry, action: "device.approve", target: personId });
        return {};
      },
    }),

    operation({
      method: "POST",
      path: "/token",
      id: "redeemToken",
      tag: TAG,
      summary: "Get tokens for an approved device, or a new access token for its refresh token",
      access: null,
      body: TOKEN_REQUEST,
      takesForm: true,
      response: TOKENS,
      refusal: TOKEN_REFUSAL,
      handle: async ({ body, reply }) => {
        reply.header("cache-control", "no-store");
        if ("device_code" in body) {
          const redeemed = await devices.redeem(body.device_code);
          if (typeof redeemed === "string") return reply.code(400).send({ error: redeemed });
          const { accessToken, refreshToken } = redeemed;
          return { accessToken, refreshToken };
        }
        const refreshed = await sessions.refresh(body.refresh_token, "device");
        if (!refreshed) return reply.code(400).send({ error: "invalid_grant" });
        return { access_token: refreshed.accessToken };
      },
    }),
  ];
}
