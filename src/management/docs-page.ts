/** A page that reads `/openapi.json` and shows it: every operation, its parameters, bodies and answers. */
export const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Millrace management API</title>
<style>
  :root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
  body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; }
  h2 { border-bottom: 1px solid #8886; margin-top: 2.5rem; }
  details { border: 1px solid #8884; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
  summary { cursor: pointer; }
  .method { display: inline-block; font: 600 .8rem ui-monospace, monospace; width: 4.5rem; }
  code, pre { font: .85rem ui-monospace, monospace; }
  pre { background: #8881; border-radius: 4px; overflow-x: auto; padding: .6rem; }
  .quiet { opacity: .7; }
</style>
</head>
<body>
<h1>Millrace management API</h1>
<p class="quiet">From <a href="openapi.json">openapi.json</a>, version <span id="version"></span>. Send <code>Authorization: Bearer &lt;token&gt;</code>.</p>
<main id="operations">Loading…</main>
<script type="module">
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const shown = (schema) => make("pre", JSON.stringify(schema, null, 2));
  const main = document.getElementById("operations");
  const api = await (await fetch("openapi.json")).json();
  document.getElementById("version").textContent = api.info.version;
  const byTag = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push({ path, method, operation });
    }
  }
  main.textContent = "";
  for (const [tag, entries] of byTag) {
    main.append(make("h2", tag));
    for (const { path, method, operation } of entries) {
      const details = make("details");
      const summary = make("summary");
      summary.append(make("span", method.toUpperCase(), "method"), make("code", path), " ", make("span", operation.summary, "quiet"));
      details.append(summary);
      for (const { name, in: place, required, schema } of operation.parameters) {
        details.append(make("p", name + " (" + place + (required ? ", required)" : ")")), shown(schema));
      }
      for (const [type, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
        details.append(make("p", "Body, " + type), shown(schema));
      }
      for (const [status, answer] of Object.entries(operation.responses)) {
        details.append(make("p", status + " " + answer.description));
        if (status !== "200") continue;
        for (const { schema } of Object.values(answer.content)) details.append(shown(schema));
      }
      main.append(details);
    }
  }
</script>
</body>
</html>
`;

/** Nothing but this page's own script and its own server. */
export const DOCS_POLICY =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'";
