import { section } from "./row.ts";

/** Asynchronous runs, idempotency keys and webhook delivery. */
export const ASYNC = {
  ...section("seed: Asynchronous mode 1-3; contract 1: Async", {
    "async.202": "async=true answers at once with 202 and content type application/json.",
    "async.body": 'The 202\'s body is exactly {"run_id":"…"}.',
    "async.request-id": "The 202's X-Request-Id equals run_id.",
    "async.location": "The 202's Location is {api_url}/v4/{p}/{app}/runs/{run_id}.",
    "async.durable": "The 202 is sent only after the run is durably committed.",
    "accept.turns":
      "Inputs of one app, however large and many, hold up no other app's: they are stored by turns, in small parts.",
    "async.parameter": "async takes true or false; anything else, or given twice, is 400.",
  }),
  ...section("seed: Asynchronous mode 4-5", {
    "async.background": "The function runs in the background after the 202.",
    "async.no-response": "The caller of an async run receives no function response.",
    "async.must-finish":
      "An async function that returns while work is in progress has its replica's termination begin.",
  }),
  ...section("seed: States, Errors; contract 1: Async", {
    "async.failure": "An async run whose internal synchronous call failed has the state failure.",
    "async.mirrors": "An async run's state mirrors the status of its internal synchronous call.",
    "async.replica-death": "A run whose replica died starts again, up to max_attempts.",
    "async.service-death": "A run whose service died or stopped is queued again, no attempt used.",
    "async.service-death.bound": "A run is queued again for the service's sake at most 20 times.",
    "async.raise-is-final": "A function that raises is failure and is not tried again.",
  }),
  ...section("seed: Limits; contract 2: scaling", {
    "async.time-limit": "response_grace_period bounds an async run's time, 15 min by default.",
    "async.time-limit.max": "An async run may take up to 12 hours.",
  }),
  ...section("contract 2: Lifecycle", {
    "async.callers-first": "Waiting callers go before the async backlog.",
    "async.fourth-slot": "The async backlog gets at least every fourth slot.",
    "async.orderly-stop": "At an orderly stop unfinished async runs go back to queued.",
  }),
  ...section("contract 1: Errors", {
    "async.disk-reserve": "Async runs are bounded by the disk reserve alone.",
    "async.draining": "A draining service answers an async call 503 + Retry-After, never 202.",
    "async.storage": "When storage cannot commit the answer is 503 + Retry-After, never 202.",
  }),
  ...section("contract 1: Idempotency-Key", {
    "idempotency.key": "An Idempotency-Key of up to 255 characters is kept 24 h per app.",
    "idempotency.public": "The key is ignored on public apps without a token.",
    "idempotency.fingerprint": "The fingerprint of a keyed call is function, query and body.",
    "idempotency.finished":
      "The same key and call of a finished run is its stored answer with Idempotent-Replayed: true.",
    "idempotency.unfinished": "The same key of an unfinished sync or stream run is 409.",
    "idempotency.async": "The same key of an async run is the same 202.",
    "idempotency.different": "The same key with a different call is 422.",
    "idempotency.sync-committed": "A keyed sync run is committed before it starts.",
  }),
  ...section("docs/api.md: Calls that outlive a crash", {
    "run.remembered":
      "A call with X-Disconnect: continue or a webhook is stored before it starts; after a crash it is interrupted.",
    "run.remembered.transcript": "What such a stream had yielded before the crash can be read.",
    "webhook.sync-remembered": "The webhook of a sync call is sent although the service was killed under it.",
  }),
  ...section("contract 1: What is kept", {
    "kept.records": "Run records are kept 30 days.",
    "kept.results": "Results, inputs and transcripts are kept for result_retention.",
    "kept.sync-payloads": "Sync inputs and results are kept up to 64 KiB each.",
    "kept.record-payloads": 'record_payloads is "all", "async" or "none".',
  }),
  ...section("seed: Asynchronous mode 6, Events; contract 1: Webhook", {
    "webhook.forward":
      "The byte-exact body a sync caller would get is POSTed to webhookEndpoint with its content type.",
    "webhook.failures-too": "Failures are forwarded as well as successes.",
    "webhook.sync-too": "webhookEndpoint works on sync calls too.",
    "webhook.url-encoded": "webhookEndpoint is a URL-encoded address.",
    "webhook.no-code": "Forwarding needs no change in the function's code.",
    "webhook.no-delay": "A webhook never delays the caller.",
  }),
  ...section("contract 3: Webhook delivery", {
    "webhook.outbox": "The outbox row is in the same transaction as the run's final state.",
    "webhook.outbox.sync": "A sync call's outbox row is in the next group commit.",
    "webhook.body-kept": "The body is kept until delivery ends, whatever result_retention.",
    "webhook.success": "A 2xx within 15 s is success.",
    "webhook.redirect": "A 3xx is failure and never followed.",
    "webhook.410": "A 410 stops the delivery.",
    "webhook.retry-after": "Retry-After is honoured up to 24 h.",
    "webhook.schedule":
      "Gaps are 0, 5 s, 30 s, 5 min, 30 min, 2 h, 5 h, 10 h, 24 h, with jitter, configurable.",
    "webhook.headers": "A delivery carries X-Request-Id and X-Millrace-Run-Status.",
    "webhook.standard":
      "A delivery carries webhook-id (the run id), webhook-timestamp and webhook-signature.",
    "webhook.signature": "The signature is v1,base64 HMAC-SHA256 over id.timestamp.body.",
    "webhook.rotation": "Several project secrets may be active at once, with a signature each.",
    "webhook.caller-secret":
      "With X-Webhook-Secret the delivery also carries the X-Cerebrium-Webhook timestamp and hex signature.",
    "webhook.caller-secret.sealed":
      "The caller's secret is stored sealed until delivery ends and never reaches the app or a log.",
    "webhook.schemes": "Only http and https without credentials in the URL are accepted.",
    "webhook.submit-check":
      "Bad syntax, forbidden literal addresses in any spelling and local names are 422 at submit.",
    "webhook.connect-check":
      "Every resolved address is checked, and the checked address is the one connected to.",
    "webhook.private": "Loopback, private, link-local and metadata ranges are refused unless allow-listed.",
    "webhook.start-loopback": "`npm start` allows webhooks to loopback.",
    "webhook.attempts": "Each attempt is on record: request headers, status, time, next try.",
    "webhook.redeliver": "One delivery or a range can be sent again.",
  }),
};
