import { section } from "./row.ts";

/** Models and programs that were written for others. */
export const MOVING = {
  ...section("docs/moving/replicate.md: The folder", {
    "cog.folder": "A folder with a cog.yaml, and without main.py or a server of its own, is a Cog model.",
    "cog.build": "Packages, Python, GPU and concurrency of a cog.yaml configure the app; the rest is named.",
    "cog.toml": "What a millrace.toml says goes before the cog.yaml beside it.",
    "cog.yaml":
      "A cog.yaml that cannot be used is refused with what is wrong and where, however hostile it is.",
    "cog.deploy": "A deploy says what it took the folder for, and what of it is not used.",
    "cog.cli": "millrace deploy takes a Cog folder, and says so in a dry run too.",
  }),
  ...section("docs/moving/replicate.md: The model", {
    "cog.runs": "setup runs once in each replica, and predict answers calls of run.",
    "cog.inputs": "Types, bounds, lengths, expressions and choices of inputs are enforced with 422.",
    "cog.openapi": "Inputs are in the app's OpenAPI document, with bounds, choices and descriptions.",
    "cog.files-in": "A file comes in by a data URL or an http URL, bounded, and is removed after the run.",
    "cog.files-out": "A file goes out as a data URL, or into the storage if no answer can hold it.",
    "cog.streams": "A model that yields streams, and its inputs are checked before.",
    "cog.async": "An async model takes as many calls at once as concurrency.max says.",
    "cog.cancel": "A cancel reaches a model as Cog's CancelationException.",
    "cog.errors": "What a model raises is an error of the app, without frames of Millrace's.",
    "cog.own": "A cog module of the app's own is imported in place of Millrace's, and the log says so.",
  }),
  ...section("docs/migrate.md", {
    "moving.modal": "The program on the page about Modal runs as the page says.",
    "moving.replicate": "The model on the page about Replicate deploys and runs as the page says.",
    "moving.bentoml": "The program on the page about BentoML runs as the page says.",
    "moving.litserve": "The program on the page about LitServe runs as the page says.",
    "moving.ray-serve": "The programs on the page about Ray Serve run as the page says.",
  }),
};
