import { z } from "zod";
import { POLL_SECONDS } from "../../identity/devices.ts";
import { AppError } from "../../model/errors.ts";
import { DONE } from "../../shapes/common.ts";
import { DEVICE_CODES, TOKEN_REFUSAL, TOKENS } from "../../shapes/people.ts";
import { baseUrlOf } from "../api/addresses.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Sign-in");

const SECRET = z.string().min(1).max(1000);
const TOKEN_REQUEST = z.union([
  z.object({ device_code: SECRET }),
  z.object({
    grant_type: z.literal("refresh_token"),
    client_id: z.string().max(1000).optional(),
    refresh_token: SECRET,
  }),
]);

/** A public key. It verifies a token's signature, but does not show whether the token was revoked. */
const KEY = z.object({
  kty: z.string(),
  crv: z.string(),
  x: z.string(),
  kid: z.string(),
  use: z.literal("sig"),
  alg: z.literal("EdDSA"),
});

/** The tokens of a device, such as the command line, whose code a person approves; and the keys of all tokens. */
export function tokenOperations({ devices, sessions, keys, publicBaseUrl }: ManagementParts): Operation[] {
  return [
    operation("POST", "/device-authorization", {
      id: "askForDevice",
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
    operation("POST", "/device/approve", {
      id: "approveDevice",
      summary: "Approve a device code; the device is signed in as you",
      access: "person",
      body: z.object({ user_code: z.string().min(1).max(50) }),
      response: DONE,
      errors: ["not_found", "too_many_requests"],
      handle: async ({ body, principal, record }) => {
        const { personId } = principal;
        if (!(await devices.approve(body.user_code, personId))) {
          const message = "No device is waiting with this code; it may have expired.";
          throw new AppError("not_found", { message });
        }
        await record("device.approve", personId);
        return {};
      },
    }),
    operation("POST", "/token", {
      id: "redeemToken",
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
          return { accessToken: redeemed.accessToken, refreshToken: redeemed.refreshToken };
        }
        const refreshed = await sessions.refresh(body.refresh_token, "device");
        if (!refreshed) return reply.code(400).send({ error: "invalid_grant" });
        return { access_token: refreshed.accessToken };
      },
    }),
    operation("GET", "/.well-known/jwks.json", {
      id: "getPublicKeys",
      summary: "Get the public keys that verify tokens, as a JWK set",
      access: null,
      response: z.object({ keys: z.array(KEY) }),
      handle: ({ reply }) => {
        reply.header("cache-control", "public, max-age=300");
        return { keys: keys.publicKeys() };
      },
    }),
  ];
}
