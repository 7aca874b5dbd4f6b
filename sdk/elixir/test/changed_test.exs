defmodule Threadline.SkillKit.ChangedTest do
  @moduledoc "Lists that their owner changes, and saves whose answers are lost, while others write."
  use ExUnit.Case, async: false
  import ExUnit.CaptureLog

  alias SkillKit.Types.UserMessage
  alias Threadline.SkillKit.Store

  setup do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    door = Door.start(server)
    %{door: door, config: [url: door.url], direct: [url: server.url]}
  end

  defp list(texts), do: for(text <- texts, do: %UserMessage{agent: "a", content: text})
  defp save(texts, config), do: Store.save("chat", list(texts), config)

  defp stored(config) do
    {:ok, messages} = elsewhere(fn -> Store.load("chat", config) end)
    Enum.map(messages, & &1.content)
  end

  defp others_say(text, config) do
    elsewhere(fn ->
      {:ok, messages} = Store.load("chat", config)
      :ok = Store.save("chat", messages ++ list([text]), config)
    end)
  end

  defp elsewhere(work), do: work |> Task.async() |> Task.await(60_000)

  defp lost(door, texts, config) do
    capture_log(fn -> assert {:error, _} = Door.losing(door, "PUT", fn -> save(texts, config) end) end)
  end

  defp begin(texts, config) do
    assert Store.load("chat", config) == {:ok, []}
    assert save(texts, config) == :ok
  end

  test "a save whose answer was lost is not made again", %{door: door, config: config, direct: direct} do
    begin(~w[1 2], config)
    lost(door, ~w[1 2 3 4], config)
    assert stored(direct) == ~w[1 2 3 4]
    others_say("other", direct)
    assert save(~w[1 2 3 4 5 6], config) == :ok
    assert stored(direct) == ~w[1 2 3 4 other 5 6]

    # What is put behind the words of others, too.
    lost(door, ~w[1 2 3 4 5 6 7], config)
    others_say("another", direct)
    assert save(~w[1 2 3 4 5 6 7 8], config) == :ok
    assert stored(direct) == ~w[1 2 3 4 other 5 6 7 another 8]
  end

  test "nor are two, one of which was refused", %{door: door, config: config, direct: direct} do
    begin(~w[1 2], config)
    lost(door, ~w[1 2 3 4], config)
    others_say("other", direct)
    lost(door, ~w[1 2 3 4 5], config)
    assert save(~w[1 2 3 4 5 6], config) == :ok
    assert stored(direct) == ~w[1 2 3 4 other 5 6]
  end

  test "a list that takes the place of one whose answer was lost", context do
    %{door: door, config: config, direct: direct} = context
    begin(~w[1 2], config)
    lost(door, ~w[1 2 3 4], config)
    assert save(~w[summary 5], config) == :ok
    assert stored(direct) == ~w[summary 5]

    # Its own answer is lost.
    others_say("other", direct)
    lost(door, ~w[shorter], config)
    assert stored(direct) == ~w[other shorter]
    assert save(~w[shorter 6], config) == :ok
    assert save(~w[shorter 6], config) == :ok
    assert stored(direct) == ~w[other shorter 6]
  end

  test "a changed list takes the place of the old one, and not of what others said", %{config: config} do
    begin(~w[1 2 3 4 5], config)
    assert save(~w[summary 5], config) == :ok
    assert stored(config) == ~w[summary 5]
    others_say("other", config)
    assert save(~w[summary 5 6], config) == :ok
    assert stored(config) == ~w[summary 5 other 6]
    assert save(~w[shorter 6], config) == :ok
    assert stored(config) == ~w[other shorter 6]
    assert save(~w[shorter 6 7], config) == :ok
    assert save(~w[shorter 6 8], config) == :ok
    assert stored(config) == ~w[other shorter 6 8]
    assert save([], config) == :ok
    assert stored(config) == ~w[other]
    assert save(~w[9], config) == :ok
    assert stored(config) == ~w[other 9]
  end

  test "a list that was changed while others wrote", %{config: config} do
    begin(~w[system 1 2], config)
    others_say("other", config)
    assert save(~w[system summary], config) == :ok
    assert stored(config) == ~w[system other summary]
  end

  test "a list that is as it was before", %{config: config} do
    begin(~w[1 2], config)
    assert save(~w[1 2 3], config) == :ok
    assert save(~w[1 2], config) == :ok
    assert stored(config) == ~w[1 2]
    assert save(~w[1 2 4], config) == :ok
    assert stored(config) == ~w[1 2 4]
  end

  test "who never knew the words of others does not take them away", %{door: door, config: config} do
    :ok = elsewhere(fn -> save(~w[hi there], config) end)

    # SkillKit goes on with nothing after this.
    capture_log(fn ->
      assert {:error, _} = Door.losing(door, "GET", fn -> Store.load("chat", config) end)
    end)

    assert save(~w[hi you], config) == :ok
    assert save(~w[bye], config) == :ok
    assert stored(config) == ~w[hi there bye]
  end

  test "where others have replaced the list nothing is taken away", %{config: config} do
    begin(~w[1 2 3], config)

    elsewhere(fn ->
      {:ok, _} = Store.load("chat", config)
      :ok = save(~w[theirs 3], config)
    end)

    assert save(~w[summary], config) == :ok
    assert stored(config) == ~w[theirs 3 summary]
    assert save(~w[summary 4], config) == :ok
    assert save(~w[shorter], config) == :ok
    assert stored(config) == ~w[theirs 3 shorter]
  end

  test "an agent's turn of another door goes with the list that knew it", %{config: config} do
    begin(~w[1], config)

    events = ~S([{"type":"TEXT_MESSAGE_START","messageId":"m","role":"user"},
      {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"theirs"},{"type":"TEXT_MESSAGE_END","messageId":"m"},
      {"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"PLAN","content":{}}])

    {:ok, {{_, 201, _}, _, _}} =
      :httpc.request(:put, {'#{config[:url]}/v1/threads/chat/runs/r', [], 'application/json', events}, [], [])

    {:ok, messages} = Store.load("chat", config)
    assert Store.save("chat", messages ++ list(~w[2]), config) == :ok
    assert stored(config) == ~w[1 theirs 2]
    assert save(~w[summary 3], config) == :ok
    assert stored(config) == ~w[summary 3]
  end
end
