import { section } from "./row.ts";

/** What people look at. */
export const DASHBOARD = {
  ...section("docs/decisions/0018-dashboard.md", {
    "dashboard.set-up": "The one-time link makes the first person, and an invitation lets the next one in.",
    "dashboard.session":
      "A person who is signed in stays signed in, with any number of pages and after a reload.",
    "dashboard.sign-in": "After signing in, a person gets to the page that they had asked for.",
    "dashboard.overview":
      "The overview shows runs by state, errors, latencies, replicas and the last failures.",
    "dashboard.apps": "The list of apps shows what each is doing, sorted by any of it.",
    "dashboard.app-tabs": "An app's pages have addresses of their own, and its scaling can be changed.",
    "dashboard.builds": "A build's log is followed while it runs, and an earlier version put back.",
    "dashboard.secrets": "Secrets of an app and of the project are shown, added, changed and removed.",
    "dashboard.logs": "An app's log is followed, searched and narrowed to a run.",
    "dashboard.playground": "A function is called from a form made of its signature, streams as they arrive.",
    "dashboard.server-playground":
      "A server is sent any method, path, headers and body; its answer is shown as it comes, and the call as code.",
    "dashboard.socket-console":
      "A server's WebSocket is opened, spoken to and closed; both directions are shown with times, and the close.",
    "dashboard.server-runs":
      "Runs of a server show method, path, status and bytes, and mark WebSockets; its page shows how it is started.",
    "dashboard.runs": "Runs are filtered by state, mode, function and time, and found by their id.",
    "dashboard.run-search":
      "A search that no index helps goes on by itself through all runs, says how far it is, and can be stopped.",
    "dashboard.failed-run":
      "A failed run says its error once, with its version, its build and the log of its replica.",
    "dashboard.async-playground": "An async call in the playground shows what its run comes to.",
    "dashboard.caller-errors": "What callers did wrong is shown apart from failures of the app.",
    "dashboard.run-page": "A run's page shows its timeline, batch, input, output, logs and deliveries.",
    "dashboard.webhooks": "Deliveries are shown with every attempt, and sent again.",
    "dashboard.files": "Files of the persistent storage are listed, uploaded, downloaded and removed.",
    "dashboard.audit":
      "Every change in a project can be read, narrowed by who, what and when, and taken along as CSV.",
    "dashboard.settings": "Members and projects are managed.",
    "dashboard.isolation":
      "The operator sees how apps are isolated, and what the last doctor --escape found; others do not.",
    "dashboard.invitations":
      "A person is invited by a link, shown once or mailed; its page joins with an account or makes one; it can be revoked.",
    "dashboard.address":
      "A person proves and changes their address, and replaces a forgotten password by mail.",
    "dashboard.palette": "Every page is reached by keyboard alone.",
  }),
  ...section("docs/decisions/0018-dashboard.md", {
    "dashboard.security": "No inline script, no request to another site, no token within reach of scripts.",
    "dashboard.hostile":
      "Whatever names and outputs hold is shown as text, however deeply nested, and breaks nothing.",
    "dashboard.visible":
      "Characters that cannot be seen or that turn text around are shown by their code; Copy copies them as they are.",
    "dashboard.axe":
      "No page of the dashboard, the reference or the guide has a serious accessibility fault.",
    "dashboard.bundle": "The first page loads at most 250 KB.",
    "dashboard.scale": "With 100,000 runs and 1,000 apps each page is usable within a second.",
  }),
  ...section("docs/decisions/0021-guide-and-reference.md", {
    "reference.complete": "The page at /docs shows every operation with its schemas and examples.",
    "reference.try": "An operation is tried there as the person who is signed in, or with a pasted token.",
  }),
  ...section("docs/decisions/0021-guide-and-reference.md", {
    "guide.served": "The service serves its own documents under /guide, with nothing from other sites.",
    "guide.links": "Every link and anchor of the documents leads somewhere.",
    "guide.search": "A search in the page finds sections of the documents by their words.",
    "guide.questions": "The first result of the guide's search answers each of 20 questions of newcomers.",
    "guide.order": "The sidebar lists the guide by task, and decision records last, folded away.",
    "guide.copy": "Every block of code has a button that copies it.",
  }),
};
