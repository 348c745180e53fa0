{ Memory under load, one program for every manager: -dHEDDLE takes heddlemm, -dCMEM the C library's malloc (or what is preloaded
  in its place) through Free Pascal's unit cmem, neither of them Free Pascal's own heap.

    bench WORKLOAD THREADS SCALE     each thread does SCALE hundredths of the workload's full measure, whatever their number

  Prints "ms ELAPSED cpu USED", each the mean of the threads. Every workload checks what it reads back.
  SPDX-License-Identifier: MIT }
program bench;

{$mode objfpc}{$H+}

uses
  {$ifdef HEDDLE}heddlemm,{$endif}{$ifdef CMEM}cmem,{$endif} cthreads, SysUtils, Classes, Linux, UnixType;

type
  TWork = class;
  TWorkload = procedure(Work: TWork; Rounds: Integer);

  TWork = class(TThread)
  private
    FState: QWord;
    FWorkload: TWorkload;
    FRounds: Integer;
  public
    Elapsed, Used: Double;
    constructor Create(Index: Integer; Workload: TWorkload; Rounds: Integer);
    function Below(Limit: LongWord): LongWord;
    procedure Execute; override;
  end;

  TBytes16 = array[0..15] of Byte;

  TItem = class
    Key: Integer;
    Next: TItem;
    Body: TBytes16;
    constructor Create(AKey: Integer);
  end;

constructor TItem.Create(AKey: Integer);
begin
  Key := AKey;
  Body[AKey and 15] := AKey and 255;
end;

procedure Check(Right: Boolean; const What: string);
begin
  if Right then Exit;
  WriteLn(StdErr, 'bench: ', What);
  Halt(1);
end;

function MillisecondsOf(Clock: Integer): Double;
var
  Time: TTimeSpec;
begin
  clock_gettime(Clock, @Time);
  Result := (Int64(Time.tv_sec) * 1000000000 + Time.tv_nsec) / Double(1e6); { a plain 1e6 is a Single here, and then all is }
end;

constructor TWork.Create(Index: Integer; Workload: TWorkload; Rounds: Integer);
begin
  FState := QWord(Index + 1) * QWord($9E3779B97F4A7C15);
  FWorkload := Workload;
  FRounds := Rounds;
  inherited Create(True);
end;

{$push}{$q-}{$r-}
function TWork.Below(Limit: LongWord): LongWord;
begin
  FState := FState xor (FState shl 13);
  FState := FState xor (FState shr 7);
  FState := FState xor (FState shl 17);
  Result := (QWord(LongWord(FState shr 32)) * Limit) shr 32;
end;
{$pop}

{ ---- the demo: allocate, resize, free ------------------------------------------------------------------------------------ }

procedure Demo(Work: TWork; Rounds: Integer);
const
  Blocks = 1000;
var
  Block: array[0..Blocks - 1] of PByte;
  Size: array[0..Blocks - 1] of Integer;
  Round, I: Integer;
begin
  for Round := 1 to 10 * Rounds do begin
    for I := 0 to Blocks - 1 do begin
      if I mod 50 = 0 then Size[I] := 1024 + Work.Below(7 * 1024) else Size[I] := 8 + Work.Below(500);
      Block[I] := GetMem(Size[I]);
      Block[I]^ := I and 255;
      Block[I][Size[I] - 1] := I and 255;
    end;
    for I := 0 to Blocks - 1 do begin
      Check(Block[I][Size[I] - 1] = I and 255, 'a block was overwritten');
      Size[I] := 2 * Size[I];
      ReallocMem(Block[I], Size[I]);
      Block[I][Size[I] - 1] := I and 255;
    end;
    for I := 0 to Blocks - 1 do begin
      Check((Size[I] < 16) or (Block[I]^ = I and 255), 'a block lost its content');
      FreeMem(Block[I]);
    end;
  end;
end;

{ ---- resizing ------------------------------------------------------------------------------------------------------------ }

procedure Resize(Work: TWork; Rounds, First, Last, Step: Integer);
const
  Blocks = 400;
var
  Block: array[0..Blocks - 1] of PInteger;
  Round, I, Size: Integer;
begin
  for Round := 1 to Rounds do begin
    for I := 0 to Blocks - 1 do begin
      Block[I] := GetMem(First + Work.Below(8));
      Block[I]^ := I;
    end;
    Size := First;
    while (Size - Last) * Step < 0 do begin
      Inc(Size, Step);
      for I := 0 to Blocks - 1 do ReallocMem(Block[I], Size + Integer(Work.Below(8)));
    end;
    for I := 0 to Blocks - 1 do begin
      Check(Block[I]^ = I, 'a resized block lost its content');
      FreeMem(Block[I]);
    end;
  end;
end;

procedure SmallUp(Work: TWork; Rounds: Integer);
begin
  Resize(Work, 4 * Rounds, 8, 600, 16);
end;

procedure SmallDown(Work: TWork; Rounds: Integer);
begin
  Resize(Work, 4 * Rounds, 600, 8, -16);
end;

{ Buffers that grow by a few bytes up to a megabyte, eight at a time. }
procedure Growth(Work: TWork; Rounds: Integer);
const
  Buffers = 8;
var
  Buffer: array[0..Buffers - 1] of PByte;
  Size: array[0..Buffers - 1] of Integer;
  Round, I, Left: Integer;
begin
  for Round := 1 to (Rounds + 4) div 5 do begin
    for I := 0 to Buffers - 1 do begin
      Buffer[I] := GetMem(1);
      Size[I] := 1;
    end;
    repeat
      Left := Buffers;
      for I := 0 to Buffers - 1 do begin
        if Size[I] > 1000000 then Dec(Left)
        else begin
          Inc(Size[I], 1 + Integer(Work.Below(400)));
          ReallocMem(Buffer[I], Size[I]);
          Buffer[I][Size[I] - 1] := I;
        end;
      end;
    until Left = 0;
    for I := 0 to Buffers - 1 do begin
      Check(Buffer[I][Size[I] - 1] = I, 'a buffer lost its end');
      FreeMem(Buffer[I]);
    end;
  end;
end;

{ ---- what the language allocates ------------------------------------------------------------------------------------------ }

procedure Strings(Work: TWork; Rounds: Integer);
var
  Names: array of string;
  Joined: string;
  Round, I, J, Total: Integer;
begin
  for Round := 1 to 2 * Rounds do begin
    SetLength(Names, 0);
    Total := 0;
    for I := 0 to 999 do begin
      SetLength(Names, I + 1);
      for J := 0 to Work.Below(12) do Names[I] := Names[I] + Chr(Ord('a') + Integer(Work.Below(26)));
      Names[I] := IntToStr(I) + ' ' + Names[I];
      Inc(Total, Length(Names[I]) + 1);
    end;
    Joined := '';
    for I := 0 to High(Names) do Joined := Joined + Names[I] + ',';
    Check(Length(Joined) = Total, 'a string has another length');
    Check(Copy(Joined, Pos(',', Joined) + 1, 2) = '1 ', 'a string has another content');
  end;
end;

procedure Objects(Work: TWork; Rounds: Integer);
var
  List: TFPList;
  Round, I, At: Integer;
begin
  List := TFPList.Create;
  for Round := 1 to 10 * Rounds do begin
    for I := 0 to 999 do List.Add(TItem.Create(I));
    for I := 0 to 999 do begin
      At := Work.Below(List.Count);
      Check(TItem(List[At]).Body[TItem(List[At]).Key and 15] = TItem(List[At]).Key and 255, 'an object was overwritten');
      TItem(List[At]).Free;
      List[At] := TItem.Create(I);
    end;
    for I := 0 to List.Count - 1 do TItem(List[I]).Free;
    List.Count := 0;
  end;
  List.Free;
end;

procedure Fill(Work: TWork; Rounds: Integer);
var
  Block: array[0..31] of PByte;
  Round, I, Size: Integer;
begin
  for Round := 1 to 20 * Rounds do begin
    for I := 0 to High(Block) do begin
      Size := 1024 + Work.Below(63 * 1024);
      Block[I] := GetMem(Size);
      FillChar(Block[I]^, Size, I);
    end;
    for I := 0 to High(Block) do begin
      Check((Block[I]^ = I) and (Block[I][1023] = I), 'a filled block was overwritten');
      FreeMem(Block[I]);
    end;
  end;
end;

procedure SortPart(var A: array of Integer; Low, High: Integer);
var
  I, J, Pivot, Kept: Integer;
begin
  while Low < High do begin
    I := Low;
    J := High;
    Pivot := A[(Low + High) div 2];
    repeat
      while A[I] < Pivot do Inc(I);
      while A[J] > Pivot do Dec(J);
      if I <= J then begin
        Kept := A[I];
        A[I] := A[J];
        A[J] := Kept;
        Inc(I);
        Dec(J);
      end;
    until I > J;
    SortPart(A, Low, J);
    Low := I;
  end;
end;

procedure Sort(Work: TWork; Rounds: Integer);
var
  Values: array of Integer;
  Round, I: Integer;
begin
  for Round := 1 to 40 * Rounds do begin
    SetLength(Values, 0);
    SetLength(Values, 100 + Work.Below(900));
    for I := 0 to High(Values) do Values[I] := Work.Below(1000000);
    SortPart(Values, 0, High(Values));
    for I := 1 to High(Values) do Check(Values[I - 1] <= Values[I], 'the array is not sorted');
    Values := Copy(Values, 0, Length(Values) div 2);
  end;
end;

{ ---- blocks that other threads free ---------------------------------------------------------------------------------------- }

var
  Shelf: array[0..4095] of Pointer; { blocks in transit between threads: the first word is the size }

type
  TShortLived = class(TThread)
    Seed: Integer;
    procedure Execute; override;
  end;

procedure Exchange(At, Size: Integer);
var
  Block: PPtrUInt;
begin
  Block := GetMem(Size);
  Block^ := Size;
  PByte(Block)[Size - 1] := Size and 127;
  Block := InterlockedExchange(Shelf[At], Block);
  if Block = nil then Exit;
  Check((Block^ < 70000) and ((Block^ < 16) or (PByte(Block)[Block^ - 1] = Block^ and 127)), 'a block in transit was overwritten');
  FreeMem(Block);
end;

procedure TShortLived.Execute;
var
  I: Integer;
begin
  for I := 0 to 499 do Exchange((Seed * 31 + I * 7) and High(Shelf), 16 + (Seed + I * 13) and 511);
end;

procedure Wild(Work: TWork; Rounds: Integer);
var
  Round, I, Size: Integer;
  Child: TShortLived;
begin
  for Round := 1 to 2 * Rounds do begin
    for I := 1 to 5000 do begin
      Size := 16 + Work.Below(256);
      if I and 15 = 0 then Size := 16 + Work.Below(4000);
      if I and 255 = 0 then Size := 16 + Work.Below(60000);
      Exchange(Work.Below(Length(Shelf)), Size);
    end;
    Child := TShortLived.Create(True);
    Child.Seed := Work.Below(1000);
    Child.Start;
    Child.WaitFor;
    Child.Free;
  end;
end;

{ ---- the program ----------------------------------------------------------------------------------------------------------- }

const
  Names: array[0..8] of string = ('demo', 'small-up', 'small-down', 'growth', 'strings', 'objects', 'fill', 'sort', 'wild');
  Workloads: array[0..8] of TWorkload = (@Demo, @SmallUp, @SmallDown, @Growth, @Strings, @Objects, @Fill, @Sort, @Wild);

procedure TWork.Execute;
begin
  Elapsed := -MillisecondsOf(CLOCK_MONOTONIC);
  Used := -MillisecondsOf(CLOCK_THREAD_CPUTIME_ID);
  FWorkload(Self, FRounds);
  Used := Used + MillisecondsOf(CLOCK_THREAD_CPUTIME_ID);
  Elapsed := Elapsed + MillisecondsOf(CLOCK_MONOTONIC);
end;

function WorkloadOf(const Name: string): TWorkload;
var
  I: Integer;
begin
  for I := 0 to High(Names) do if Names[I] = Name then Exit(Workloads[I]);
  Result := nil;
end;

var
  Work: array of TWork;
  I, Threads, Rounds: Integer;
  Elapsed: Double = 0;
  Used: Double = 0;
begin
  Threads := StrToIntDef(ParamStr(2), 0);
  Rounds := StrToIntDef(ParamStr(3), 0);
  if (ParamCount <> 3) or (WorkloadOf(ParamStr(1)) = nil) or not (Threads in [1..255]) or (Rounds < 1) then begin
    WriteLn(StdErr, 'usage: bench WORKLOAD THREADS SCALE, where WORKLOAD is one of');
    for I := 0 to High(Names) do WriteLn(StdErr, '  ', Names[I]);
    Halt(2);
  end;
  SetLength(Work, Threads);
  for I := 0 to High(Work) do Work[I] := TWork.Create(I, WorkloadOf(ParamStr(1)), Rounds);
  for I := 0 to High(Work) do Work[I].Start;
  for I := 0 to High(Work) do begin
    Work[I].WaitFor;
    Check(Work[I].FatalException = nil, 'a thread ended by an exception');
    Elapsed := Elapsed + Work[I].Elapsed;
    Used := Used + Work[I].Used;
    Work[I].Free;
  end;
  for I := 0 to High(Shelf) do FreeMem(Shelf[I]);
  WriteLn('ms ', Elapsed / Threads: 0: 3, ' cpu ', Used / Threads: 0: 3);
end.
