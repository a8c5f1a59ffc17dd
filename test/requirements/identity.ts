import { section } from "./row.ts";

/** Service accounts, tokens, people, and what the dashboard shows of them. */
export const IDENTITY = {
  ...section("seed: Create service account; contract 4: Service accounts", {
    "sa.create": "POST /v2/projects/{project_id}/service-accounts answers 200.",
    "sa.create.v2": "The management path carries the version segment v2.",
    "sa.create.project-id": "project_id is a required plain string path parameter.",
    "sa.create.bearer": "Creating a service account requires a bearer token.",
    "sa.create.request": "The body takes name (1-100), expiresAt, description and role.",
    "sa.create.expiry-names": "expires_at, expiry and expiryDate are taken for expiresAt.",
    "sa.create.bare-date": "A bare date means the end of that day UTC.",
    "sa.create.defaults": "The default expiry is 90 days, the default role admin.",
    "sa.create.response":
      "The answer is id, name, description, role, projectId, createdAt, expiresAt and token.",
    "sa.create.no-store": "The answer carries Cache-Control: no-store.",
    "sa.token-once": "The token appears at creation and never again.",
    "sa.list": "GET lists accounts without tokens, with lastUsedAt and revokedAt.",
    "sa.update": "PATCH changes name, description and role, and expiresAt to an earlier time.",
    "sa.update.role-wins": "A changed role wins over the token's claim.",
    "sa.rotate": "rotate gives a new token; the old one is valid for overlapSeconds.",
    "sa.delete": "DELETE answers 200, and the token stops within 5 s everywhere.",
    "sa.several": "A project has as many accounts as its environments need.",
  }),
  ...section("seed: Authentication 1, 5; contract 4: tokens", {
    "token.bearer": "Authorization: Bearer <token> authenticates a run call.",
    "token.jwt": "A token is a JWT with iss, aud, sub, project_id, role, jti, iat and exp, signed EdDSA.",
    "token.instance": "iss and aud are an instance id fixed at first start: a new public URL voids nothing.",
    "token.hash-only": "Only a hash of jti is stored.",
    "token.role-run": "A token of role run calls apps.",
    "token.public-app": "A public app is called without a token.",
    "token.jwks": "The public keys are at /.well-known/jwks.json.",
    "token.both-planes": "A token works on both planes.",
    "token.roles": "run calls and reads runs; deploy also deploys, reads logs, secrets, volumes; admin all.",
  }),
  ...section("docs/accounts.md: Tokens", {
    "token.remembered": "A token that was verified and remembered stops at its expiry and when revoked.",
  }),
  ...section("contract 4: people", {
    "people.sign-in": "A person signs in with e-mail and password (argon2id or scrypt).",
    "people.access-token":
      "Signing in gives a short-lived token of the same form without project_id, rights by membership.",
    "people.refresh": "The access token is refreshed by an http-only cookie.",
    "people.device": "POST /device-authorization gives a deviceAuthResponsePayload.",
    "people.device.pending": 'POST /token is 400 {"error":"authorization_pending"} until approved.',
    "people.device.done": 'POST /token is 200 {"accessToken","refreshToken"} once approved.',
    "people.device.refresh": 'POST /token takes a refresh_token form and gives {"access_token"}.',
  }),
  ...section("docs/accounts.md: Invitations", {
    "invitation.bearer":
      "The person who opens an invitation's link may join one project, once, signed in or signing up.",
    "invitation.void":
      "It ends after seven days, when it is revoked, and with its inviter's right to invite.",
    "invitation.listed": "Only the project's own admins make, list and revoke invitations.",
    "invitation.mailed":
      "If mailed, its link goes to the address alone, and a person who signs up with it has proven that address.",
    "invitation.attack":
      "No one gains another person's rights by invitations, links, addresses, devices or cookies, with or without mail.",
    "address.label":
      "An address is a label until it is proven: several may have it, it reserves nothing, each signs in to their own account.",
    "address.silent": "No answer tells who exists: its status, body, headers and work are the same.",
    "address.proof":
      "A mailed link proves an address, to its own account alone; a proven address is one account's.",
    "password.mail": "A forgotten password is mailed for to a proven address alone, behind the answer.",
    "password.operator":
      "Without mail only the operator makes links that set a password: the command line, the owner's token, the first person.",
    "mail.smtp": "Mail leaves by smtp:// with STARTTLS or smtps://, the certificate checked, with a login.",
    "mail.quiet":
      "Mail waits in a bounded queue, is tried again, and its failures are logged without secrets.",
    "management.matrix":
      "Every operation lets in exactly the identities that its entry in the OpenAPI document names.",
  }),
  ...section("seed: Service account, Authentication 3, States", {
    "dashboard.api-keys.create":
      "The API keys page creates a service account with a name and an expiry date.",
    "dashboard.api-keys.copy": "The generated token is shown once, to be copied.",
    "dashboard.run-state": "An async run's state is visible in the dashboard.",
    "dashboard.async-mark": "The dashboard marks an async run as async.",
  }),
};
