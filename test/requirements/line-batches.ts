import { section } from "./row.ts";

/** Batches of lines. */
export const LINE_BATCHES = {
  ...section("docs/batches.md: Upload", {
    "batches.bad-lines": "A line that cannot be a call has an error as its result, and the others run.",
    "batches.refused": "An upload that cannot be a batch is refused, with nothing stored.",
    "batches.resume": "An interrupted upload with a key continues after the lines that are stored.",
    "batches.uploading": "Until its upload is complete, a batch is `uploading` and no line runs.",
    "batches.abandoned": "An interrupted upload without a key is cancelled, and none of its lines runs.",
    "batches.silent": "An upload may take long, but not be silent.",
    "batches.long-lines": "A line that is longer than the app accepts is an error of its own.",
    "batches.takeover": "Of several connections that upload with the same key, the last one goes on.",
    "batches.quota": "An account has a bounded number of uploads open.",
    "batches.open": "An account has a bounded number of batches of an app that have not ended.",
    "batches.full-disk":
      "An upload ends with 507 when the disk is filled up to its reserve, and continues later.",
  }),
  ...section("docs/batches.md: How lines run", {
    "batches.run": "Every line of a batch becomes a run, and has its result once.",
    "batches.window": "A bounded number of a batch's lines is in the queue.",
    "batches.delayed": "A delayed line has no run until shortly before its time.",
    "batches.fair": "A batch that goes on slowly delays no other app's.",
    "batches.draining": "While the app's queue is drained, none of its batch's lines is put into it.",
    "batches.killed": "That holds if the service is killed during the upload and while lines run.",
    "batches.deleted": "A batch ends with its app.",
  }),
  ...section("docs/batches.md: Watch", {
    "batches.page": "An app's pages in the dashboard show its batches, cancel them and retry their failures.",
    "batches.own": "A token of the role `call` sees the batches of its own account and user only.",
  }),
  ...section("docs/batches.md: Results", {
    "batches.results": "Results come in the order of the file or of their ends, and from any line on.",
    "batches.streams": "What a generator yields is a list in the result of its line.",
    "batches.follow": "A reader that waits gets each line as it ends, until the batch has ended.",
  }),
  ...section("docs/batches.md: Cancel, retry", {
    "batches.cancel": "Cancelling a batch ends all of its lines, each with its result.",
    "batches.retry": "The lines that failed can run again, as a new batch.",
  }),
  ...section("docs/batches.md: OpenAI's Batch API", {
    "openai-batches.run": "OpenAI's client runs a batch from its file to its results.",
    "openai-batches.server": "A batch of a server app sends each line to the server's own path.",
    "openai-batches.files": "OpenAI's client uploads, lists, reads and deletes files.",
    "openai-batches.invalid": "A file with a faulty line fails as a whole, and the batch says why.",
    "openai-batches.key": "A batch that is created again with the same key is the same batch.",
    "openai-batches.quota": "The files of an account in an app have a bounded size.",
    "openai-batches.cancel": "OpenAI's client cancels and lists batches.",
  }),
  ...section("docs/batches.md: The end", {
    "batches.webhook": "One webhook tells the end of a batch.",
    "batches.caps": "Other runs of the app are removed by the caps of storage while a batch is open.",
    "batches.kept": "Nothing of a batch is removed until it has ended, whatever the caps of storage.",
  }),
} as const;
