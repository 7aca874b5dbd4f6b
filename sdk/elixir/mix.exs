defmodule ThreadlineSkillKit.MixProject do
  use Mix.Project

  def project do
    [
      app: :threadline_skill_kit,
      version: "0.1.0",
      elixir: "~> 1.14",
      description: "Keeps SkillKit's conversations in Threadline",
      package: [licenses: ["Apache-2.0"], links: %{}, files: ["lib", "mix.exs", "README.md"]],
      deps: []
    ]
  end

  def application do
    [extra_applications: [:logger, :inets, :ssl, :public_key]]
  end
end
