defmodule Threadline.SkillKit.StoreTest do
  use ExUnit.Case, async: false
  import ExUnit.CaptureLog

  alias SkillKit.Types.{AssistantMessage, SystemMessage, ToolCall, ToolResult, UserMessage}
  alias Threadline.SkillKit.Store

  setup do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    %{server: server, config: [url: server.url]}
  end

  defp said(text), do: %UserMessage{agent: "a", content: text}
  defp answered(text), do: %AssistantMessage{agent: "a", content: text}

  # What another process does, which knows nothing of this one: like an agent that was restarted.
  defp elsewhere(work), do: work |> Task.async() |> Task.await(60_000)

  defp everything do
    [
      %SystemMessage{agent: "a", content: "be kind"},
      said("hi \u0000 \"é\" 😀\n"),
      %UserMessage{
        agent: nil,
        content: [%{"type" => "text", "text" => "t"}, %{"score" => 1.5e-7, "on" => true, "none" => nil}]
      },
      %UserMessage{agent: "a", content: [%{type: :image, data: <<255, 0>>}]},
      %AssistantMessage{
        agent: "a",
        content: nil,
        tool_calls: [%ToolCall{id: "c", name: "search", input: %{"q" => "x"}}]
      },
      %ToolResult{
        agent: "a",
        name: "search",
        tool_call_id: "c",
        content: <<"no text ", 200, 255>>,
        is_error: true
      },
      %ToolResult{agent: "a", tool_call_id: "c", content: "found", is_error: false},
      %AssistantMessage{
        agent: "a",
        content: "",
        tool_calls: [%ToolCall{id: "d", name: "n", input: %{n: 12_345_678_901_234_567_890_123}}]
      },
      %AssistantMessage{
        agent: "a",
        content: "9007199254740993",
        tool_calls: [%ToolCall{id: "e", name: "n", input: %{"n" => 9_007_199_254_740_993}}]
      },
      answered("done")
    ]
  end

  test "the line of README is a store", %{server: server} do
    page = File.read!(Path.expand("../../../README.md", __DIR__))
    [_, line] = Regex.run(~r/^\| SkillKit \(Elixir\) \| `(.+?)` \|/m, page)
    assert {{Store, options}, _} = Code.eval_string(line)
    assert options[:url] == "http://127.0.0.1:7420"
    config = Keyword.put(options, :url, server.url)
    assert Store.save("chat", [said("hi")], config) == :ok
    assert Store.load("chat", config) === {:ok, [said("hi")]}
  end

  test "what was saved comes back, also after a restart and in a fresh VM", %{server: server, config: config} do
    assert Store.load("chat", config) === {:ok, []}
    assert Store.save("chat", everything(), config) == :ok
    assert elsewhere(fn -> Store.load("chat", config) end) === {:ok, everything()}

    Server.stop(server)
    again = Server.start(port: server.port, data: server.data)
    on_exit(fn -> Server.remove(again) end)
    assert Store.load("chat", config) === {:ok, everything()}
    more = everything() ++ [said("more")]
    assert Store.save("chat", more, config) == :ok

    # Another VM has the modules of the application and nothing else of this one.
    code = ~s"""
    [helper, path, url] = System.argv()
    [types | _] = helper |> File.read!() |> String.split("defmodule Server")
    Code.eval_string(types)
    # An application has the atoms that it works with.
    _ = [:image, :type, :data, :n]
    {:ok, messages} = Threadline.SkillKit.Store.load("chat", url: url)
    File.write!(path, :erlang.term_to_binary(messages))
    :ok = Threadline.SkillKit.Store.save("chat", messages, url: url)
    """

    path = Path.join(server.data, "loaded")
    ebin = Path.join(Mix.Project.app_path(), "ebin")
    helper = Path.join(__DIR__, "test_helper.exs")

    {output, status} =
      System.cmd("elixir", ["-pa", ebin, "-e", code, helper, path, config[:url]], stderr_to_stdout: true)

    assert status == 0, output
    assert path |> File.read!() |> :erlang.binary_to_term() === more
    assert count(config, "chat") == length(more)
  end

  test "others can read it", %{config: config} do
    :ok = Store.save("chat", Enum.take(everything(), 6), config)
    [_, _, _, image, call, result] = messages(config, "chat")
    assert %{"role" => "user", "content" => [%{"type" => "image"}], "term" => _} = image

    assert %{
             "role" => "assistant",
             "toolCalls" => [%{"id" => "c", "function" => %{"name" => "search"} = function}]
           } = call

    assert function["arguments"] == ~s({"q":"x"})
    refute Map.has_key?(call, "term")

    assert %{"role" => "tool", "toolCallId" => "c", "isError" => true, "content" => "no text \uFFFD\uFFFD"} =
             result
  end

  test "a save that is repeated adds nothing", %{config: config} do
    for _ <- 1..3, do: assert(Store.save("chat", everything(), config) == :ok)
    assert elsewhere(fn -> Store.save("chat", everything(), config) end) == :ok
    assert count(config, "chat") == length(everything())
  end

  test "a load that failed takes nothing away", %{server: server, config: config} do
    :ok = Store.save("chat", [said("one"), answered("two")], config)
    Server.stop(server)

    log =
      capture_log(fn ->
        elsewhere(fn ->
          assert {:error, _} = Store.load("chat", config)
          # SkillKit goes on with nothing, and saves what comes then.
          assert {:error, _} = Store.save("chat", [said("three")], config)
          again = Server.start(port: server.port, data: server.data)
          assert Store.save("chat", [said("three")], config) == :ok
          assert Store.save("chat", [said("three"), answered("four")], config) == :ok
          # The same words as the first: yet another message.
          assert Store.save("chat", [said("three"), answered("four"), said("one")], config) == :ok
          assert Store.save("chat", [said("three"), answered("four"), said("one")], config) == :ok
          Server.stop(again)
        end)
      end)

    assert log |> String.split("Threadline: conversation") |> length() == 2, "it is said once: #{log}"
    again = Server.start(port: server.port, data: server.data)
    on_exit(fn -> Server.remove(again) end)
    wanted = [said("one"), answered("two"), said("three"), answered("four"), said("one")]
    assert Store.load("chat", config) === {:ok, wanted}
    # And who has loaded again goes on with all of it.
    assert Store.save("chat", wanted ++ [said("five")], config) == :ok
    assert elsewhere(fn -> Store.load("chat", config) end) === {:ok, wanted ++ [said("five")]}
  end

  test "a save that knows nothing takes nothing away", %{config: config} do
    :ok = Store.save("chat", [said("one"), answered("two")], config)
    assert elsewhere(fn -> Store.save("chat", [said("three")], config) end) == :ok
    assert Store.load("chat", config) === {:ok, [said("one"), answered("two"), said("three")]}
    assert elsewhere(fn -> Store.save("chat", [], config) end) == :ok
    assert {:ok, [_, _, _]} = Store.load("chat", config)
  end

  test "initial messages that are put in front at each start", %{config: config} do
    initial = [said("you are")]

    for turn <- 1..3 do
      elsewhere(fn ->
        {:ok, stored} = Store.load("chat", config)
        list = initial ++ stored ++ [said("turn #{turn}")]
        assert Store.save("chat", list, config) == :ok
        assert elsewhere(fn -> Store.load("chat", config) end) === {:ok, list}
        list = list ++ [answered("yes")]
        assert Store.save("chat", list, config) == :ok
        assert elsewhere(fn -> Store.load("chat", config) end) === {:ok, list}
      end)
    end

    assert count(config, "chat") == 9
  end

  test "what others say meanwhile stays", %{config: config} do
    {:ok, []} = Store.load("chat", config)
    :ok = Store.save("chat", [said("one")], config)

    elsewhere(fn ->
      {:ok, stored} = Store.load("chat", config)
      :ok = Store.save("chat", stored ++ [answered("theirs")], config)
    end)

    :ok = Store.save("chat", [said("one"), said("mine")], config)
    :ok = Store.save("chat", [said("one"), said("mine"), said("more")], config)
    wanted = [said("one"), answered("theirs"), said("mine"), said("more")]
    assert elsewhere(fn -> Store.load("chat", config) end) === {:ok, wanted}

    # At the same time.
    tasks = for n <- 1..6, do: Task.async(fn -> Store.save("busy", [said("#{n}")], config) end)
    assert Enum.all?(Task.await_many(tasks, 60_000), &(&1 == :ok))
    {:ok, all} = Store.load("busy", config)
    assert all |> Enum.map(& &1.content) |> Enum.sort() == for(n <- 1..6, do: "#{n}")
  end

  test "an agent's turn of another door is loaded", %{config: config} do
    :ok = Store.save("chat", [said("one")], config)

    events =
      ~S([{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","metadata":{"a":1}},
      {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"half \ud83d"},{"type":"TEXT_MESSAGE_END","messageId":"m"},
      {"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"PLAN","content":{"n":123456789012345678901234567890}}])

    {:ok, {{_, 201, _}, _, _}} =
      :httpc.request(:put, {'#{config[:url]}/v1/threads/chat/runs/r', [], 'application/json', events}, [], [])

    {:ok, list} = Store.load("chat", config)
    assert list === [said("one"), %AssistantMessage{content: "half \uFFFD"}]
    assert Store.save("chat", list ++ [said("two")], config) == :ok
    assert Store.save("chat", list ++ [said("two"), said("three")], config) == :ok
    assert elsewhere(fn -> Store.load("chat", config) end) === {:ok, list ++ [said("two"), said("three")]}
    assert count(config, "chat") == 5
  end

  test "deleted is deleted, and a name is a name", %{config: config} do
    assert Store.delete("chat", config) == :ok
    :ok = Store.save("chat", everything(), config)
    assert Store.delete("chat", config) == :ok
    assert Store.load("chat", config) == {:ok, []}

    names = ["lead/helper-12", "ä 😀", "100%", "a?b#c"]

    for name <- names, prefix <- ["", "prod/"] do
      config = [prefix: prefix] ++ config
      assert Store.save(name, [said(prefix <> name)], config) == :ok
      assert elsewhere(fn -> Store.load(name, config) end) === {:ok, [said(prefix <> name)]}
    end
  end

  test "nothing raises, and nothing takes long", %{config: config} do
    capture_log(fn ->
      long = String.duplicate("n", 300)
      assert {:error, {400, "invalid-request", _}} = Store.save(long, [said("x")], config)
      assert {:error, _} = Store.load("chat", url: "ftp://nowhere")
      assert {:error, _} = Store.load("chat", [])
      assert {:error, _} = Store.save("chat", [:no_message], config)
      assert {:error, _} = Store.save("chat", :no_list, config)
      assert {:error, _} = Store.delete("chat", url: "http://127.0.0.1:1")
      # One who accepts and says nothing.
      {:ok, mute} = :gen_tcp.listen(0, ip: {127, 0, 0, 1})
      {:ok, port} = :inet.port(mute)
      {time, answer} = :timer.tc(fn -> Store.load("chat", url: "http://127.0.0.1:#{port}") end)
      assert {:error, _} = answer
      assert time < 20_000_000
    end)
  end

  test "whom it does not know it tells nothing" do
    host = [{:extensions, [{:Extension, {2, 5, 29, 17}, false, [dNSName: 'localhost']}]}]
    key = [key: {:namedCurve, :secp256r1}, digest: :sha256]
    chain = %{root: key, intermediates: [], peer: key ++ host}
    client = %{root: key, intermediates: [], peer: key}

    %{server_config: options, client_config: trust} =
      :public_key.pkix_test_data(%{server_chain: chain, client_chain: client})

    {:ok, listener} = :ssl.listen(0, [active: false, mode: :binary, reuseaddr: true] ++ options)
    {:ok, {_, port}} = :ssl.sockname(listener)
    test = self()
    spawn_link(fn -> serve(listener, test) end)

    capture_log(fn ->
      assert {:error, _} = Store.load("chat", url: "https://localhost:#{port}", api_key: "secret")
      refute_received {:heard, _}
      trusted = Path.join(System.tmp_dir!(), "threadline-ca-#{port}.pem")
      pem = for der <- trust[:cacerts], do: {:Certificate, der, :not_encrypted}
      File.write!(trusted, :public_key.pem_encode(pem))
      on_exit(fn -> File.rm(trusted) end)
      config = [url: "https://localhost:#{port}", api_key: "secret", user: "ann", cacertfile: trusted]
      assert Store.load("chat", config) == {:ok, []}
      assert_received {:heard, request}
      assert request =~ "authorization: Bearer secret" and request =~ "threadline-user: ann"
    end)
  end

  defp serve(listener, test) do
    with {:ok, socket} <- :ssl.transport_accept(listener), {:ok, socket} <- :ssl.handshake(socket, 5_000) do
      {:ok, request} = :ssl.recv(socket, 0, 5_000)
      send(test, {:heard, request})
      :ssl.send(socket, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
      :ssl.close(socket)
    end

    serve(listener, test)
  end

  test "2,000 messages", %{config: config} do
    list =
      for n <- 1..2_000,
          do:
            if(rem(n, 2) == 0, do: said("message #{n}"), else: answered(String.duplicate("word ", rem(n, 60))))

    {save, :ok} = :timer.tc(fn -> Store.save("long", list, config) end)
    {load, {:ok, ^list}} = :timer.tc(fn -> Store.load("long", config) end)
    {more, :ok} = :timer.tc(fn -> Store.save("long", list ++ [said("one more")], config) end)

    IO.puts(
      "\n2,000 messages: saved in #{div(save, 1_000)} ms, loaded in #{div(load, 1_000)} ms, one more in #{div(more, 1_000)} ms"
    )

    assert count(config, "long") == 2_001
  end

  defp count(config, name), do: config |> messages(name) |> length()

  defp messages(config, name) do
    {:ok, {{_, 200, _}, _, body}} =
      :httpc.request(:get, {'#{config[:url]}/v1/conversations/#{name}', []}, [], body_format: :binary)

    {:ok, %{"messages" => messages}, _} = Threadline.SkillKit.Json.decode(body)
    messages
  end
end
