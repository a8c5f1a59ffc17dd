import { later, section } from "./row.ts";

const PIECE = "management API and identity";

/** Service accounts, tokens, people, and what the dashboard shows of them. */
export const IDENTITY = {
  ...section("seed: Create service account; contract 4: Service accounts", {
    "sa.create": later(PIECE, "POST /v2/projects/{project_id}/service-accounts answers 200."),
    "sa.create.v2": later(PIECE, "The management path carries the version segment v2."),
    "sa.create.project-id": later(PIECE, "project_id is a required plain string path parameter."),
    "sa.create.bearer": later(PIECE, "Creating a service account requires a bearer token."),
    "sa.create.request": later(PIECE, "The body takes name (1-100), expiresAt, description and role."),
    "sa.create.expiry-names": later(PIECE, "expires_at, expiry and expiryDate are taken for expiresAt."),
    "sa.create.bare-date": later(PIECE, "A bare date means the end of that day UTC."),
    "sa.create.defaults": later(PIECE, "The default expiry is 90 days, the default role admin."),
    "sa.create.response": later(
      PIECE,
      "The answer is id, name, description, role, projectId, createdAt, expiresAt and token.",
    ),
    "sa.create.no-store": later(PIECE, "The answer carries Cache-Control: no-store."),
    "sa.token-once": later(PIECE, "The token appears at creation and never again."),
    "sa.list": later(PIECE, "GET lists accounts without tokens, with lastUsedAt and revokedAt."),
    "sa.update": later(PIECE, "PATCH changes name, description and role, and expiresAt to an earlier time."),
    "sa.update.role-wins": later(PIECE, "A changed role wins over the token's claim."),
    "sa.rotate": later(PIECE, "rotate gives a new token; the old one is valid for overlapSeconds."),
    "sa.delete": later(PIECE, "DELETE answers 200, and the token stops within 5 s everywhere."),
    "sa.several": later(PIECE, "A project has as many accounts as its environments need."),
  }),
  ...section("seed: Authentication 1, 5; contract 4: tokens", {
    "token.bearer": "Authorization: Bearer <token> authenticates a run call.",
    "token.jwt": "A token is a JWT with iss, aud, sub, project_id, role, jti, iat and exp, signed EdDSA.",
    "token.instance": "iss and aud are an instance id fixed at first start: a new public URL voids nothing.",
    "token.hash-only": "Only a hash of jti is stored.",
    "token.role-run": "A token of role run calls apps.",
    "token.public-app": "A public app is called without a token.",
    "token.jwks": later(PIECE, "The public keys are at /.well-known/jwks.json."),
    "token.both-planes": later(PIECE, "A token works on both planes."),
    "token.roles": later(
      PIECE,
      "run calls and reads runs; deploy also deploys, reads logs, secrets, volumes; admin all.",
    ),
  }),
  ...section("issue: The ground floor, build 6", {
    "token.remembered": "A token that was verified and remembered stops at its expiry and when revoked.",
  }),
  ...section("contract 4: people", {
    "people.sign-in": later(PIECE, "A person signs in with e-mail and password (argon2id or scrypt)."),
    "people.access-token": later(
      PIECE,
      "Signing in gives a short-lived token of the same form without project_id, rights by membership.",
    ),
    "people.refresh": later(PIECE, "The access token is refreshed by an http-only cookie."),
    "people.device": later(PIECE, "POST /device-authorization gives a deviceAuthResponsePayload."),
    "people.device.pending": later(
      PIECE,
      'POST /token is 400 {"error":"authorization_pending"} until approved.',
    ),
    "people.device.done": later(PIECE, 'POST /token is 200 {"accessToken","refreshToken"} once approved.'),
    "people.device.refresh": later(
      PIECE,
      'POST /token takes a refresh_token form and gives {"access_token"}.',
    ),
  }),
  ...section("seed: Service account, Authentication 3, States", {
    "dashboard.api-keys.create": later(
      "dashboard",
      "The API keys page creates a service account with a name and an expiry date.",
    ),
    "dashboard.api-keys.copy": later("dashboard", "The generated token is shown once, to be copied."),
    "dashboard.run-state": later("dashboard", "An async run's state is visible in the dashboard."),
    "dashboard.async-mark": later("dashboard", "The dashboard marks an async run as async."),
  }),
};
