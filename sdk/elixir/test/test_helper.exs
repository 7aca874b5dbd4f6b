# SkillKit is on hex alone: its structs, as they are in 0.5.
defmodule SkillKit.Types do
  defmodule UserMessage do
    defstruct [:agent, :content]
  end

  defmodule SystemMessage do
    defstruct [:agent, :content]
  end

  defmodule ToolCall do
    defstruct [:id, :name, :input]
  end

  defmodule AssistantMessage do
    defstruct [:agent, :content, tool_calls: []]
  end

  defmodule ToolResult do
    defstruct [:agent, :name, :tool_call_id, :content, is_error: false]
  end
end

defmodule Server do
  @moduledoc "The real server, on a port and a directory of its own. It goes with its owner."

  def start(options \\ []) do
    port = options[:port] || free_port()

    data =
      options[:data] ||
        Path.join(
          System.tmp_dir!(),
          "threadline-elixir-#{System.unique_integer([:positive])}-#{System.os_time()}"
        )

    File.mkdir_p!(data)
    # Its standard input ends with this VM, and it is told so.
    script =
      ~S(exec 3<&0; "$0" "$@" </dev/null 3<&- & server=$!; read -r _ <&3; kill -9 $server; wait $server)

    arguments = ["-c", script, binary(), "dev", "--listen", "127.0.0.1:#{port}", "--data", data]

    program =
      Port.open({:spawn_executable, "/bin/bash"}, [:binary, :exit_status, :stderr_to_stdout, args: arguments])

    server = %{port: port, data: data, program: program, url: "http://127.0.0.1:#{port}"}
    ready(server, 600)
    server
  end

  @doc "As by kill -9."
  def stop(server) do
    Port.command(server.program, "\n")
    await_exit(server.program)
  end

  @doc "Once the process that started it is gone, and it with that; or by that process."
  def remove(server, tries \\ 600) do
    case Port.info(server.program, :connected) do
      {:connected, owner} when owner == self() ->
        stop(server)
        File.rm_rf(server.data)

      nil ->
        File.rm_rf(server.data)

      # Only its owner would be told of its end.
      _ when tries > 0 ->
        Process.sleep(50)
        remove(server, tries - 1)

      _ ->
        raise "the server does not end"
    end
  end

  def free_port do
    {:ok, socket} = :gen_tcp.listen(0, ip: {127, 0, 0, 1})
    {:ok, port} = :inet.port(socket)
    :gen_tcp.close(socket)
    port
  end

  defp await_exit(program) do
    receive do
      {^program, {:exit_status, _}} -> :ok
      {^program, {:data, _}} -> await_exit(program)
    after
      30_000 -> raise "the server does not end"
    end
  end

  defp ready(server, 0), do: raise("no server at #{server.url}")

  defp ready(server, tries) do
    case :httpc.request(:get, {'#{server.url}/readyz', []}, [timeout: 1_000], []) do
      {:ok, {{_, 200, _}, _, _}} ->
        :ok

      _ ->
        Process.sleep(50)
        ready(server, tries - 1)
    end
  end

  defp binary do
    path = System.get_env("THREADLINE") || Path.expand("../../../target/debug/threadline", __DIR__)
    if File.exists?(path), do: path, else: raise("no server to test with: cargo build, or set THREADLINE")
  end
end

defmodule Door do
  @moduledoc "A way to the server, on which answers can get lost after a request was carried out."

  def start(server) do
    {:ok, listener} = :gen_tcp.listen(0, [:binary, ip: {127, 0, 0, 1}])
    {:ok, port} = :inet.port(listener)
    {:ok, loses} = Agent.start_link(fn -> nil end)
    spawn_link(fn -> accept(listener, server.port, loses) end)
    %{url: "http://127.0.0.1:#{port}", loses: loses}
  end

  @doc "No answer to a request of this method arrives meanwhile."
  def losing(door, method, work) do
    Agent.update(door.loses, fn _ -> method end)
    result = work.()
    Agent.update(door.loses, fn _ -> nil end)
    result
  end

  defp accept(listener, port, loses) do
    {:ok, client} = :gen_tcp.accept(listener)

    relay =
      spawn(fn ->
        {:ok, server} = :gen_tcp.connect({127, 0, 0, 1}, port, [:binary])
        relay(client, server, loses, nil)
      end)

    # What has come before is handed over with it.
    :gen_tcp.controlling_process(client, relay)
    accept(listener, port, loses)
  end

  defp relay(client, server, loses, method) do
    receive do
      {:tcp, ^client, data} ->
        :gen_tcp.send(server, data)
        started = Regex.run(~r"^[A-Z]+(?= /)", data)
        relay(client, server, loses, if(started, do: hd(started), else: method))

      {:tcp, ^server, data} ->
        unless method == Agent.get(loses, & &1) do
          :gen_tcp.send(client, data)
          relay(client, server, loses, method)
        end

      {:tcp_closed, _} ->
        :ok
    end
  end
end

{:ok, _} = Application.ensure_all_started(:inets)
ExUnit.start()
